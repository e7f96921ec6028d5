"""Dead-letters jobs whose type no worker handles, and brings them back when a worker does.

A job becomes a dead letter after `topology.unhandled_ms` without a worker for its type. Before
that, this process listens for a while without a break, so that a pause of the process, the machine
or Kafka does not count as the workers' silence. The jobs come back with the first worker that
handles their type.

The store `parts` keeps each such job under `B`, followed by its type, the pool that an operator
asked for (or nothing), and its job_id.
"""

from __future__ import annotations

from itertools import islice
from typing import ClassVar

from streams.dispatcher import metrics
from streams.dispatcher.job import is_live
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.routing import pool_of
from streams.dispatcher.scopes import in_scope
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import bury, revive
from streams.runtime.processor import Context
from streams.serde.job_states import DEAD, PENDING
from streams.serde.keys import SEPARATOR, after, join, split
from streams.serde.records import Job
from streams.state.store import KeyValueStore

REASON = "unknown_type"
_UNHANDLED = b"B"
_LISTENING_SECONDS = 120.0
_PAUSE_SECONDS = 15.0
_REST_SECONDS = 2.0
_MOST_TOLD = 10
_NOTE = "its type is handled again"

Waiting = tuple[str, str | None]
"""A type, and the pool that an operator asked for."""


class UnhandledTypes(Part):
    """Dead-letters and brings back the jobs of one partition, a part in each punctuation."""

    keys: ClassVar = {_UNHANDLED: "dead jobs whose type had no worker"}
    awaits_logs = True

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._dead_types: set[Waiting] = set()
        self._rests_until = 0.0
        seconds = min(_LISTENING_SECONDS, shared.topology.unhandled_ms / 1000)
        self._listening = Listening(seconds)

    def restored(self, ctx: Context) -> None:
        """Look up the types that have dead jobs to bring back."""
        self._dead_types = _all_waiting(ctx.store("parts"))

    def tick(self, step: Step) -> None:
        """Dead-letter and bring back a part of the jobs, every few seconds."""
        if step.monotonic >= self._rests_until:
            self._rests_until = step.monotonic + _REST_SECONDS
            step.on_undo(self._return_to, set(self._dead_types))
            self._dead_letter_due(step)
            self._bring_back(step)

    def forgotten(self, step: Step, job: Job) -> None:
        step.store.delete(_key(job))

    def _dead_letter_due(self, step: Step) -> None:
        latest = step.now - self.topology.unhandled_ms
        due = [place for place, since in self.shared.without_worker.items() if since <= latest]
        if not due:
            self._listening.stop()
        elif self._listening.heard_out(step.monotonic):
            left = AT_ONCE
            for pool, type_ in due:
                found = self.shared.queue.ready_since(pool, type_, latest, left)
                self._dead_letter(found, step)
                left -= len(found)
            if left == 0:
                self._rests_until = 0.0  # do the rest in the next punctuation

    def _bring_back(self, step: Step) -> None:
        for waiting in [waiting for waiting in self._dead_types if self._is_handled(waiting)]:
            found = _some(step.store, waiting)
            for key, job_id in found:
                step.store.delete(key)
                job = step.table.get(job_id)
                if job is not None and _comes_back(step, job):
                    revive(step, job, _NOTE)
                    metrics.BROUGHT_BACK.inc()
            if len(found) == AT_ONCE:
                self._rests_until = 0.0
                return
            self._dead_types.discard(waiting)

    def _dead_letter(self, job_ids: list[str], step: Step) -> None:
        for job_id in job_ids:
            job = step.table.get(job_id)
            if job is None or job.status != PENDING or not step.may_go_on(job):
                continue
            error = (
                f"UnknownJobType: no worker of pool {job.pool!r} handled {job.type!r} for "
                f"{self.topology.unhandled_ms / 3_600_000:g} h (handled there: "
                f"{_some_of(self.shared.workers.types(job.pool))}): start a "
                "worker that does and the job goes on, or mend the route and replay"
            )
            bury(step, job, DEAD, error, reason=REASON)
            step.store.put(_key(job), b"")
            self._dead_types.add((job.type, job.asked_pool))

    def _is_handled(self, waiting: Waiting) -> bool:
        type_, asked = waiting
        return type_ in self.shared.workers.types(pool_of(type_, asked, self.topology))

    def _return_to(self, dead_types: set[Waiting]) -> None:
        self._dead_types, self._rests_until = dead_types, 0.0


class Listening:
    """Tracks whether workers could connect without a break for long enough to know all of them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.stop()

    def stop(self) -> None:
        """Stop listening, since there is nothing to listen for."""
        self._since: float | None = None
        self._called = 0.0

    def heard_out(self, now: float) -> bool:
        """Whether listening is complete; call at each punctuation, since a gap restarts it."""
        paused = now - self._called > _PAUSE_SECONDS
        self._called = now
        if self._since is None or paused:
            self._since = now
        return now - self._since >= self._seconds


def _comes_back(step: Step, job: Job) -> bool:
    is_unhandled = job.status == DEAD and job.end_reason == REASON and job.replayed_as is None
    if not is_unhandled or job.tenant_id in step.shared.closed.erased:
        return False
    # A scope has one live job: a replay may already work in this job's scope.
    return not any(map(is_live, in_scope(step, job.scope)))


def _some_of(types: set[str]) -> str:
    """The first few types, since workers may handle many."""
    told = ", ".join(sorted(types)[:_MOST_TOLD]) or "nothing"
    return told if len(types) <= _MOST_TOLD else f"{told} and others"


def _key(job: Job) -> bytes:
    """The store key of such a job."""
    return _UNHANDLED + join(job.type, job.asked_pool or "", job.job_id)


def _all_waiting(store: KeyValueStore) -> set[Waiting]:
    """The types and pools that have such jobs; costs one lookup for each pair."""
    found: set[Waiting] = set()
    start = _UNHANDLED
    while entry := next(store.range(start, after(_UNHANDLED)), None):
        type_, asked, _ = split(entry[0][1:])
        found.add((type_, asked or None))
        start = after(_prefix((type_, asked or None)))
    return found


def _some(store: KeyValueStore, waiting: Waiting) -> list[tuple[bytes, str]]:
    """Keys and ids of some such jobs, in the order of their ids."""
    prefix = _prefix(waiting)
    found = islice(store.range(prefix, after(prefix)), AT_ONCE)
    return [(key, key[len(prefix) :].decode()) for key, _ in found]


def _prefix(waiting: Waiting) -> bytes:
    type_, asked = waiting
    return _UNHANDLED + join(type_, asked or "") + SEPARATOR

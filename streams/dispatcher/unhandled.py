"""Dead-letters jobs whose type no worker handles, and brings them back when a worker does.

A job becomes a dead letter after `topology.unhandled_ms` without a worker for its type. Before
that, this process listens for a while without a break, so that a pause of the process, the machine
or Kafka does not count as the workers' silence. The jobs come back with the first worker that
handles their type.
"""

from __future__ import annotations

from streams.dispatcher import metrics, unhandled_store
from streams.dispatcher.held import HeldJobs
from streams.dispatcher.jobs import is_live
from streams.dispatcher.lifecycle import Lifecycle
from streams.dispatcher.rerouting import pool_of
from streams.dispatcher.worker_registry import WorkerRegistry
from streams.runtime.processor import Context
from streams.serde.records import Job
from streams.state.store import KeyValueStore
from streams.topology.model import Topology

REASON = "unknown_type"
_AT_ONCE = 200
_LISTENING_SECONDS = 120.0
_PAUSE_SECONDS = 15.0
_REST_SECONDS = 2.0
_NOTE = "its type is handled again"


class UnhandledTypes:
    """Dead-letters and brings back the jobs of one partition, a part in each punctuation."""

    def __init__(self, topology: Topology, held: HeldJobs, registry: WorkerRegistry) -> None:
        self._topology = topology
        self._held = held
        self._registry = registry
        self._dead_types: set[unhandled_store.Waiting] = set()
        self._rests_until = 0.0
        self._listening = Listening(min(_LISTENING_SECONDS, topology.unhandled_ms / 1000))

    def restored(self, store: KeyValueStore) -> None:
        """Look up the types that have dead jobs to bring back."""
        self._dead_types = unhandled_store.all_waiting(store)

    def go_on(self, life: Lifecycle) -> None:
        """Dead-letter and bring back a part of the jobs, every few seconds."""
        if life.ctx.monotonic >= self._rests_until:
            self._rests_until = life.ctx.monotonic + _REST_SECONDS
            self._dead_letter_due(life)
            self._bring_back(life)

    def _dead_letter_due(self, life: Lifecycle) -> None:
        latest = life.now - self._topology.unhandled_ms
        due = [place for place, since in self._held.without_worker().items() if since <= latest]
        if not due:
            self._listening.stop()
        elif self._listening.heard_out(life.ctx):
            left = _AT_ONCE
            for pool, type_ in due:
                found = life.run_queue.ready_since(pool, type_, latest, left)
                self._dead_letter(found, life)
                left -= len(found)
            if left == 0:
                self._rests_until = 0.0  # do the rest in the next punctuation

    def _bring_back(self, life: Lifecycle) -> None:
        for waiting in [waiting for waiting in self._dead_types if self._is_handled(waiting)]:
            store = life.ctx.store("jobs")
            found = unhandled_store.some(store, waiting, _AT_ONCE)
            for key, job_id in found:
                store.delete(key)
                job = life.store.get(job_id)
                if job is not None and _comes_back(job, life):
                    life.revive(job, _NOTE)
                    metrics.BROUGHT_BACK.inc()
            if len(found) == _AT_ONCE:
                self._rests_until = 0.0
                return
            self._dead_types.discard(waiting)

    def _dead_letter(self, job_ids: list[str], life: Lifecycle) -> None:
        for job_id in job_ids:
            job = life.store.get(job_id)
            if job is None or job.status != "pending":
                continue
            error = (
                f"UnknownJobType: no worker of pool {job.pool!r} handled {job.type!r} for "
                f"{self._topology.unhandled_ms / 3_600_000:g} h (handled there: "
                f"{', '.join(sorted(self._registry.types(job.pool))) or 'nothing'}): start a "
                "worker that does and the job goes on, or mend the route and replay"
            )
            life.dead_letter(job, "dead", error, reason=REASON)
            life.ctx.store("jobs").put(unhandled_store.key(job), b"")
            self._dead_types.add((job.type, job.asked_pool))

    def _is_handled(self, waiting: unhandled_store.Waiting) -> bool:
        type_, asked = waiting
        return type_ in self._registry.types(pool_of(type_, asked, self._topology))


class Listening:
    """Tracks whether commands were read without a break long enough to know all workers."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.stop()

    def stop(self) -> None:
        """Stop listening, since there is nothing to listen for."""
        self._since: float | None = None
        self._asked = self._called = 0.0

    def heard_out(self, ctx: Context) -> bool:
        """Whether listening is complete; call at each punctuation, since a gap restarts it."""
        now = ctx.monotonic
        paused = now - self._called > _PAUSE_SECONDS or now - self._asked > 2 * _PAUSE_SECONDS
        self._called = now
        if self._since is None or paused:
            self._since = self._asked = now
        read = ctx.caught_up_to("jobs.commands", self._asked)
        heard = read and self._asked - self._since >= self._seconds
        if read and now - self._asked >= 1:
            self._asked = now
        return heard


def _comes_back(job: Job, life: Lifecycle) -> bool:
    is_unhandled = job.status == "dead" and job.end_reason == REASON and job.replayed_as is None
    if not is_unhandled or job.tenant_id in life.tenants.erased:
        return False
    # A scope has one live job: a replay may already work in this job's scope.
    return not any(map(is_live, life.store.in_scope(job.scope)))

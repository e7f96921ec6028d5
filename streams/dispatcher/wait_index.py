"""Finds the open waits that an event or the end of a job concerns.

Keys in the store `parts`: `a` tenant field value number job_id incarnation wait_id for a wait for
an event, by one equality of its match and the number of the event behind which it began; `j` job_id
of the awaited job, then job_id incarnation wait_id of the one that waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from streams.dispatcher.step import Step
from streams.event_match import read_match
from streams.runtime.processor import Context
from streams.serde.keys import SEPARATOR, after, join, split
from streams.serde.records import Job, Wait

_EVENTS, _JOBS = b"a", b"j"
KEYS = {_EVENTS: "open waits for events", _JOBS: "open waits for the end of a job"}


class Place(NamedTuple):
    """Where an open wait is: its place in the order in which waits began, and its job."""

    order: bytes
    behind: int
    job_id: str
    incarnation: int
    wait_id: str


class WaitIndex:
    """The open waits of one partition. Memory only has how many waits each equality finds.

    So an event that concerns no wait costs no look into the store. An equality is known by its
    hash. `offered_to` tells the number up to which all events of a tenant were offered to its
    waits, and `next_number` gives the next place in the order of events and ends of waits.
    `forgotten` tells the number of the last event that is not kept any more for later waits.
    """

    def __init__(
        self,
        ctx: Context,
        offered_to: Callable[[Step, str], int],
        next_number: Callable[[Step], int],
        forgotten: Callable[[], int],
    ) -> None:
        self.offered_to = offered_to
        self.next_number = next_number
        self.forgotten = forgotten
        store = ctx.store("parts")
        found = store.range(_EVENTS, after(_EVENTS))
        self._found_by = Counter(hash(tuple(split(key[1:])[:3])) for key, _ in found)
        self._jobs = sum(1 for _ in store.range(_JOBS, after(_JOBS)))

    def add(self, step: Step, job: Job, wait: Wait) -> None:
        """Find a wait from now on."""
        key = _key(job, wait)
        if key is not None and step.store.get(key) is None:
            step.store.put(key, b"")
            self._count(step, job, wait, 1)

    def drop(self, step: Step, job: Job, wait: Wait) -> None:
        """Find a wait no more."""
        key = _key(job, wait)
        if key is not None and step.store.get(key) is not None:
            step.store.delete(key)
            self._count(step, job, wait, -1)

    @property
    def any_event(self) -> bool:
        """Whether any job waits for an event."""
        return bool(self._found_by)

    def knows(self, tenant_id: str, equality: tuple[str, str]) -> bool:
        """Whether a wait of a tenant may be found by a field of an event and its value."""
        return hash((tenant_id, *equality)) in self._found_by

    def for_event(
        self, step: Step, tenant_id: str, equality: tuple[str, str], behind: bytes, limit: int
    ) -> list[Place]:
        """Waits that a field of an event finds, behind a place, those first that began first."""
        prefix = _EVENTS + join(tenant_id, *equality) + SEPARATOR
        if not self.knows(tenant_id, equality):
            return []
        found = step.store.range(prefix + (behind + b"\0" if behind else b""), after(prefix))
        return [_place(key, len(prefix)) for key, _ in islice(found, limit)]

    def for_job(self, step: Step, job_id: str, limit: int) -> list[Place]:
        """Waits for the end of a job."""
        if not self._jobs:
            return []
        prefix = _JOBS + join(job_id) + SEPARATOR
        found = islice(step.store.range(prefix, after(prefix)), limit)
        return [_place(key, len(prefix)) for key, _ in found]

    def _count(self, step: Step, job: Job, wait: Wait, by: int) -> None:
        step.on_undo(self._add, job.tenant_id, wait, -by)
        self._add(job.tenant_id, wait, by)

    def _add(self, tenant_id: str, wait: Wait, by: int) -> None:
        if wait.kind == "event":
            found_by = hash((tenant_id, *read_match(wait.match).equality))
            self._found_by[found_by] += by
            if not self._found_by[found_by]:
                del self._found_by[found_by]
        else:
            self._jobs += by


def _key(job: Job, wait: Wait) -> bytes | None:
    """The key of a wait; None for one that time or a person ends."""
    whose = f"{wait.behind or 0:016x}", job.job_id, str(job.incarnation), wait.id
    if wait.kind == "event":
        return _EVENTS + join(job.tenant_id, *read_match(wait.match).equality, *whose)
    return _JOBS + join(wait.job_id, *whose) if wait.kind == "job" and wait.job_id else None


def _place(key: bytes, head: int) -> Place:
    behind, job_id, incarnation, wait_id = split(key[head:])
    return Place(key[head:], int(behind, 16), job_id, int(incarnation), wait_id)

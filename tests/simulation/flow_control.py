"""Flow control: each event is in one job that runs for it, and one of a value runs at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.outside import Violation
from streams.serde.job_states import TERMINAL
from streams.serde.records import Job
from streams.serde.sizes import MOST_EVENT_IDS

if TYPE_CHECKING:
    from simulation.world import World

DEBOUNCED, BATCHED, ONE_BY_ONE = "digest", "bulk", "sync"
CONTROLLED = (DEBOUNCED, BATCHED, ONE_BY_ONE)


class FlowControl:
    """What became of each event whose job another one may run for."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._named: dict[str, tuple[str, str]] = {}
        """By event: the job, and its scope, that stands for it."""
        self._takers: dict[tuple[str, str], tuple[str, str]] = {}
        """By job and scope that was superseded: the job, and its scope, that took its place."""
        self._events: dict[tuple[str, str], str] = {}
        self._superseded: list[Job] = []

    def changed(self, job: Job) -> None:
        """A record of a job.

        Raises:
            Violation: it stands for what is not its own.
        """
        if job.superseded_by is not None:
            self._gave_way(job)
        elif job.replay_of is not None or job.continuations:
            return
        elif job.run_id is not None or job.status in TERMINAL:
            place = job.job_id, job.scope
            for event_id in job.all_event_ids:
                if self._named.setdefault(event_id, place) != place:
                    raise Violation(
                        "event_twice", f"{event_id} is of {self._named[event_id]}, {place}"
                    )

    def begun(self, jobs: list[Job]) -> None:
        """Raise Violation if one of these runs beside another one of its value."""
        for job in jobs:
            if job.type != ONE_BY_ONE or job.event is None or job.replay_of is not None:
                continue
            for other in self._world.judge.jobs.values():
                if other.job_id != job.job_id and self._is_beside(job, other):
                    raise Violation("two_of_one", f"{job.job_id} begins beside {other.job_id}")

    def at_the_end(self) -> None:
        """Raise Violation if an event is in no job that ran for it, or says why not."""
        for place, event_id in self._events.items():
            taker = place
            while taker in self._takers:
                taker = self._takers[taker]
            job = self._world.judge.jobs.get(taker[0])
            if job is None or job.scope != taker[1] or job.event_count > MOST_EVENT_IDS:
                continue  # it was purged, or lives again
            if event_id not in job.all_event_ids:
                raise Violation("event_forgotten", f"{event_id}: {taker} names {job.all_event_ids}")

    def _gave_way(self, job: Job) -> None:
        if (job.job_id, job.scope) in self._takers:
            return
        if job.status != "cancelled" or job.run_id is not None:
            raise Violation("superseded_late", f"{job.job_id} is {job.status} after {job.run_id}")
        self._superseded.append(job)

    def look(self) -> None:
        """All that was committed has been read: who took whose place is known by now."""
        for job in self._superseded:
            taker = self._world.judge.jobs.get(job.superseded_by or "")
            if taker is None:
                raise Violation("superseded_by_none", f"{job.job_id} by {job.superseded_by}")
            if (taker.tenant_id, _subject(taker)) != (job.tenant_id, _subject(job)):
                raise Violation("superseded_foreign", f"{job.job_id} by {taker.job_id}")
            place = job.job_id, job.scope
            self._takers[place] = taker.job_id, taker.scope
            if job.event is not None:
                self._events[place] = job.event.event_id
        self._superseded.clear()

    def _is_beside(self, job: Job, other: Job) -> bool:
        return (
            (other.tenant_id, other.type) == (job.tenant_id, job.type)
            and _subject(other) == _subject(job)
            and other.run_id is not None
            and other.replay_of is None
            and other.status not in TERMINAL
        )


def _subject(job: Job) -> str | None:
    return job.event.subject if job.event is not None else None

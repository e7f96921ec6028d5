"""Each wait ends with the first answer that it may take, and only one wait of a group ends."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import orjson

from simulation.outside import Violation
from simulation.wiring import ANSWER
from streams.dispatcher.recent_events import APART_MS
from streams.errors import PoisonRecord
from streams.runtime.processor import Record
from streams.serde.codec import ENVELOPE, STEP_RESULT
from streams.serde.keys import split
from streams.serde.records import Job, StepResult

if TYPE_CHECKING:
    from simulation.world import World

Place = tuple[str, str]
_LONGEST_WAIT_MS = 60_000


class Answers:
    """The answers that came, in the order of their partition, and what waits left."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.parked: set[tuple[str, int]] = set()
        """Jobs and epochs of the runs that parked."""
        self._came: dict[Place, list[tuple[int, str]]] = defaultdict(list)
        """By tenant and subject: time and id."""
        self._left: dict[Place, dict[str, StepResult]] = defaultdict(dict)
        """By job and incarnation."""

    def waits(self, job: Job) -> None:
        """A job waits.

        Raises:
            Violation: its newest run did not park.
        """
        if (job.job_id, job.epoch) not in self.parked:
            raise Violation("parked_unasked", f"{job.job_id}: run {job.epoch} did not park")

    def went_on(self, job: Job, old: Job) -> None:
        """A job has changed.

        Raises:
            Violation: it goes on after a wait, but none of its runs since then parked.
        """
        epochs = range(old.epoch, job.epoch + 1)
        parked = any((job.job_id, epoch) in self.parked for epoch in epochs)
        if job.resumes > old.resumes and not parked:
            raise Violation("parked_unasked", f"{job.job_id} goes on after run {old.epoch}")

    def event(self, record: Record) -> None:
        """A record of `events`."""
        try:
            event = ENVELOPE.decode(record.value)
        except PoisonRecord:
            return
        known = self._came[event.tenant_id, event.subject or ""]
        if event.event_type == ANSWER and event.event_id not in {id_ for _, id_ in known}:
            known.append((record.timestamp, event.event_id))

    def left(self, record: Record) -> None:
        """A record of the changelog of `checkpoints`.

        Raises:
            Violation: a wait got another answer than the first that it may take.
        """
        job_id, incarnation, _ = split(record.key or b"")
        if record.value is None:
            self._left.pop((job_id, incarnation), None)
            return
        result = STEP_RESULT.decode(record.value)
        place, job = (job_id, incarnation), self._world.judge.jobs.get(job_id)
        if job is None or str(job.incarnation) != incarnation or job.replay_of is not None:
            return
        left = self._left[place]
        left[result.id] = result
        expected = result.raises in (None, "ApprovalExpired") or self._out_of_time(job, result)
        if not expected and not self._world.judge.trees.child_failed(result):
            raise Violation("wait_refused", f"{job_id}: {result.raises}: {result.message}")
        if {"event", "time"} <= left.keys():
            raise Violation("both_won", f"{job_id}: an answer and the time")
        if result.kind == "event" and result.raises is None:
            self._is_first(job, result, left.get("event") if result.id == "event#2" else None)

    def _out_of_time(self, job: Job, result: StepResult) -> bool:
        """Whether a wait was over, or could not begin, because the job's body is kept no longer."""
        kept = self._world.wiring.topology().topics["payloads"].retention_ms
        if job.payload_ref is None or kept is None:
            return False
        left = job.event_time + kept - self._world.true_ms
        if result.raises == "WaitTimeout":
            return left <= 0
        return result.raises == "WaitRefused" and left <= _LONGEST_WAIT_MS

    def _is_first(self, job: Job, result: StepResult, before: StepResult | None) -> None:
        taken = _taken(result)
        came = self._came[job.tenant_id, str(taken["subject"])]
        if self._world.read_again and self._came_just_before(job, came, taken["event_id"]):
            return
        ids = [id_ for at, id_ in came if at >= job.event_time]
        if before is not None:
            ids = ids[ids.index(_taken(before)["event_id"]) + 1 :]
        if ids[:1] != [taken["event_id"]]:
            raise Violation(
                "answer_missed", f"{job.job_id} {result.id} got {taken['event_id']} of {ids}"
            )

    def _came_just_before(self, job: Job, came: list[tuple[int, str]], event_id: str) -> bool:
        """Whether an event is so little older than a job that it may count if it is read again."""
        since = range(job.event_time - APART_MS, job.event_time)
        return any(at in since for at, id_ in came if id_ == event_id)


def _taken(result: StepResult) -> dict[str, str]:
    event: dict[str, str] = orjson.loads(result.value or "")["event"]
    return event

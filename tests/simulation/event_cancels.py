"""Events that cancel: all that came before them, nothing else, whatever fails meanwhile."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simulation.outside import Violation
from simulation.wiring import HALT, SOURCE
from streams.errors import PoisonRecord
from streams.runtime.processor import Record
from streams.serde.codec import ENVELOPE
from streams.serde.ids import event_job_id
from streams.serde.job_states import TERMINAL
from streams.serde.records import Job

if TYPE_CHECKING:
    from simulation.world import World

_TYPE = "chase"


@dataclass(slots=True)
class Halt:
    """An event that cancels; `ends` are the jobs that it found alive, once it has been `read`."""

    record: Record
    place: tuple[str, str]
    event_id: str
    earlier: set[str]
    """Ids of the events before it that it concerns."""
    read_at: int | None = None
    ends: set[str] = field(default_factory=set)


class EventCancels:
    """The events of the type that others cancel, in the order of their partition."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._events: dict[tuple[str, str], list[str]] = {}
        """By tenant and subject."""
        self._halts: list[Halt] = []

    def event(self, record: Record) -> None:
        """A record of `events`."""
        try:
            event = ENVELOPE.decode(record.value)
        except PoisonRecord:
            return
        place = (event.tenant_id, event.subject or "")
        if event.event_type == _TYPE:
            self._events.setdefault(place, []).append(event.event_id)
        if event.event_type == HALT:
            earlier = set(self._events.get(place, ()))
            self._halts.append(Halt(record, place, event.event_id, earlier))

    def look(self, begun: list[Job]) -> None:
        """All that was committed has been read; these jobs have begun a run since the last look.

        Raises:
            Violation: one of them was to end.
        """
        for job in begun:
            for halt in self._halts:
                if job.job_id in halt.ends:
                    raise Violation("cancel_forgotten", f"{job.job_id} runs after {halt.event_id}")
        for halt in self._halts:
            if halt.read_at is None and self._is_read(halt.record):
                halt.read_at = self._world.true_ms
                halt.ends = set(self._alive(halt))
            halt.ends = {id_ for id_ in halt.ends if self._lives(id_)}

    def meant(self, job: Job) -> bool:
        """Whether an event may have ended a job: one that came after its own."""
        if job.event is None or job.type != _TYPE:
            return False
        replay = self._world.desk.replays.get(job.job_id)
        since = self._world.desk.replayed_at[job.job_id] if replay is not None else 0
        return any(
            job.event.event_id in halt.earlier and (halt.read_at is None or since <= halt.read_at)
            for halt in self._halts
        )

    def at_the_end(self) -> None:
        """Raise Violation if a job that was to end is left."""
        for halt in self._halts:
            if halt.ends:
                raise Violation("cancel_forgotten", f"{halt.ends} live after {halt.event_id}")

    def _is_read(self, record: Record) -> bool:
        return self._world.cluster.position("dispatcher", record) > record.offset

    def _lives(self, job_id: str) -> bool:
        job = self._world.judge.jobs.get(job_id)
        return job is not None and job.status not in TERMINAL

    def _alive(self, halt: Halt) -> list[str]:
        """The jobs that it certainly ends: routes may have changed while it was on its way."""
        sent, made_at = self._world.desk.sent, self._world.judge.made_at
        own, rerouted = sent[halt.event_id], self._world.wiring.rerouted
        if own.rerouted != rerouted or not own.owed:
            return []
        found = []
        for event_id in halt.earlier:
            job_id = event_job_id(halt.place[0], SOURCE, event_id)
            was_there = made_at.get(job_id, math.inf) <= own.at
            if self._lives(job_id) and (was_there or sent[event_id].rerouted == rerouted):
                found.append(job_id)
        return found

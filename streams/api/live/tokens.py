"""What a reader gets of a job's tokens: each once, and none of a run that another one replaced.

The order of the topic decides, so every replica decides alike: a record of an older run that comes
behind one of a newer run is left out.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from streams.api.live import table as live
from streams.api.live.frames import Frame, Place
from streams.api.live.position import LIVE
from streams.api.live.table import Said, Source
from streams.api.rows.json_values import Json


@dataclass(slots=True)
class Tokens:
    """How far a reader is in one job: the newest run, and the last number of each step."""

    epoch: int
    numbers: dict[str, int] = field(default_factory=dict)

    def is_new(self, said: Said) -> bool:
        """Whether a record is to be sent; it is, or it is of no use to anybody."""
        if said.kind == "log":
            return True
        if said.epoch < self.epoch:
            return False
        if said.epoch > self.epoch:
            self.epoch, self.numbers = said.epoch, {}
        if said.n <= self.numbers.get(said.step, -1):
            return False
        if said.kind == "token":  # a reset has the number of the token behind it
            self.numbers[said.step] = said.n
        return True


def tokens_at(connection: sqlite3.Connection, job: Source, offset: int) -> Tokens:
    """Return how far a reader is that has seen what is before an offset."""
    epoch = live.newest_epoch(connection, job, offset) if offset else 0
    if not epoch:
        return Tokens(0)
    return Tokens(epoch, live.newest_numbers(connection, job, offset, epoch))


def frame_of(job: Source, said: Said) -> Frame:
    """Return the frame of a record."""
    job_id, place = job.job_id, Place(job.partition, LIVE, said.off)
    match said.kind:
        case "log":
            return Frame("log", {"job_id": job_id, **live.line_json(said)}, place)
        case "reset":
            return Frame("reset", _whose(job_id, said), place)
        case _:
            told = {"text": said.text, **_whose(job_id, said), "n": said.n}
            return Frame("token", told, place)


def _whose(job_id: str, said: Said) -> Json:
    return {"job_id": job_id, "run_id": said.run_id, "step": said.step}

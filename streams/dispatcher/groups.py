"""Groups of jobs that take each other's place: those of one tenant, type and value.

A group has at most one *open* job, which what comes later meets, and one that has *begun*, if the
group keeps those. A job in a group has a *place*, until it ends, or begins in a group that does not
keep it. A place has notes of the jobs that it stands for; they are kept apart from the job's row,
since each event would write all of them anew.

Keys in the store `parts`: `A` group holds the ids of its open job and of the one that has begun;
`M` job_id holds the job's place; `Q` window NUL number holds notes, a line each: many ids, or one
event of a batch. So a step that begins many jobs deletes few keys. A group's name is a hash,
because a value may be of any length. The window of a place is named by its first job, and goes to
the next job with the place.
"""

from __future__ import annotations

import struct
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b

import orjson

from streams.dispatcher.step import Step
from streams.runtime.processor import Context
from streams.serde.keys import SEPARATOR, after, join
from streams.serde.principals import principal_of
from streams.serde.records import Job
from streams.topology.flow_control import Batch, Rule

_GROUP, _PLACE, _NOTE = b"A", b"M", b"Q"
KEYS = {
    _GROUP: "groups of jobs that take each other's place",
    _PLACE: "the places of jobs in them",
    _NOTE: "what jobs with a place stand for",
}
_NUMBER = struct.Struct(">I")
_IDS_AT_A_KEY = 60


@dataclass(frozen=True, slots=True)
class Group:
    """The ids of its job that has not begun and may stand for others, and of the one that has."""

    open: str | None = None
    begun: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A job's place in a group, by its name in hexadecimal.

    - `window` names the notes. `first_at` is the event time of the first job of the place, in
      milliseconds. `taken` counts the jobs that gave their place or event to this one, `noted` how
      many of them have a note, and `size` how many bytes these have.
    - `stays`: the job keeps its place until it ends, and holds others back meanwhile. `of_batch`:
      the notes are whole events and not ids.
    """

    group: str
    window: str
    first_at: int
    taken: int = 0
    noted: int = 0
    size: int = 0
    stays: bool = False
    of_batch: bool = False


def group_of(job: Job, rule: Rule, value: str) -> str:
    """The name of a job's group under a rule.

    A batch has the events of one principal: policies would judge the others by the wrong one.
    """
    whose = (principal_of(job),) if isinstance(rule, Batch) else ()
    kind = type(rule).__name__
    name = orjson.dumps((job.tenant_id, job.type, kind, rule.by, value, *whose))
    return blake2b(name, digest_size=16).hexdigest()


def new_place(job: Job, group: str, *, stays: bool = False) -> Place:
    """The place of a job that stands for nothing but itself."""
    return Place(group, f"{job.job_id}.{job.incarnation}", job.event_time, stays=stays)


class Groups:
    """The groups of one partition; the whole state is in the store.

    `is_kept` is False while the store has never had any: then nothing is looked up.
    """

    def __init__(self, ctx: Context) -> None:
        self.is_kept = next(iter(ctx.store("parts").range(_PLACE, after(_PLACE))), None) is not None

    def group(self, step: Step, name: str) -> Group:
        """A group; one without jobs is not kept."""
        value = step.store.get(_GROUP + bytes.fromhex(name))
        return Group() if value is None else Group(*orjson.loads(value))

    def set_group(self, step: Step, name: str, group: Group) -> None:
        """Keep who is in a group, if anybody is."""
        value = orjson.dumps((group.open, group.begun)) if group != Group() else None
        _put(step, _GROUP + bytes.fromhex(name), value)

    def place(self, step: Step, job_id: str) -> Place | None:
        """The place that a job has."""
        value = step.store.get(_PLACE + job_id.encode()) if self.is_kept else None
        return None if value is None else Place(**orjson.loads(value))

    def set_place(self, step: Step, job_id: str, place: Place | None) -> None:
        """Give a job a place, or take it away; its notes stay."""
        self.is_kept = True
        value = None if place is None else orjson.dumps(asdict(place))
        _put(step, _PLACE + job_id.encode(), value)

    def noted(self, step: Step, place: Place, note: bytes | None) -> Place:
        """The place, once another job is counted, and noted if there is a note."""
        if note is None:
            return replace(place, taken=place.taken + 1)
        at_a_key = 1 if place.of_batch else _IDS_AT_A_KEY
        key = _notes(place) + _NUMBER.pack(place.noted // at_a_key)
        before = step.store.get(key) if place.noted % at_a_key else None
        step.store.put(key, note if before is None else before + b"\n" + note)
        return replace(
            place, taken=place.taken + 1, noted=place.noted + 1, size=place.size + len(note)
        )

    def take_notes(self, step: Step, place: Place) -> list[bytes]:
        """The notes of a place, in their order; they are deleted."""
        found = list(step.store.range(_notes(place), after(_notes(place))))
        for key, _ in found:
            step.store.delete(key)
        return [note for _, notes in found for note in notes.split(b"\n")]


def _notes(place: Place) -> bytes:
    return _NOTE + join(place.window) + SEPARATOR


def _put(step: Step, key: bytes, value: bytes | None) -> None:
    if value is None:
        step.store.delete(key)
    else:
        step.store.put(key, value)

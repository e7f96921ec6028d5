"""New sets of schedules, from when they are read until each tenant has them.

A set counts from when the broker took it. What the set before had declared alike, and not every
tenant has got yet, counts from that one: no time in between is lost.

The store `parts` keeps `Sn` application, with the time of the set, and the times of what counts
from earlier.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import orjson

from streams.dispatcher.step import Step
from streams.serde.keys import after
from streams.serde.records import DeclaredSchedule

_SPACE = b"Sn"
_TIME = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class NewSet:
    """From when on the schedules of a set count: `at`, if `earlier` has no other time for them.

    All times are in milliseconds.
    """

    at: int
    earlier: Mapping[str, int] = field(default_factory=dict)

    def since(self, each: DeclaredSchedule) -> int:
        """From when on a schedule counts."""
        return self.earlier.get(_name(each), self.at)

    def not_before(self, at: int) -> NewSet:
        """The same set for a tenant that was made at `at`."""
        earlier = {name: max(since, at) for name, since in self.earlier.items()}
        return replace(self, at=max(self.at, at), earlier=earlier)


def note(
    step: Step,
    app: str,
    at: int,
    new: Collection[DeclaredSchedule],
    old: Collection[DeclaredSchedule],
) -> None:
    """Note that the broker took a set at `at`, in place of the `old` one."""
    value, same = step.store.get(_SPACE + app.encode()), set(old)
    before = None if value is None else _read(value)
    earlier = {_name(each): before.since(each) for each in new if before and each in same}
    step.store.put(_SPACE + app.encode(), _TIME.pack(at) + orjson.dumps(earlier))


def found(step: Step) -> dict[str, NewSet]:
    """The new sets by application."""
    rows = step.store.range(_SPACE, after(_SPACE))
    return {key[len(_SPACE) :].decode(): _read(value) for key, value in rows}


def done(step: Step, apps: Collection[str]) -> None:
    """Forget the sets of applications, because each tenant has them."""
    step.store.put_many(dict.fromkeys(_SPACE + app.encode() for app in apps))


def _read(value: bytes) -> NewSet:
    (at,), earlier = _TIME.unpack(value[: _TIME.size]), value[_TIME.size :]
    return NewSet(at, orjson.loads(earlier) if earlier else {})


def _name(each: DeclaredSchedule) -> str:
    return f"{each.schedule_id} {each.tenant}"  # an id has no space

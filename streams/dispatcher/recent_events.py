"""Keeps the events of the last hour or so that handlers wait for, for waits that begin after them.

Each event that is offered to waits gets the next number. Keys in the store `parts`: `d` number has
an event of a type that some job type `waits_for`; `f` tenant field value number finds it by an
equality; `g` is the last number, and the number and time of the last event that was forgotten; `c`
source event_type says since which time and number events of these globs are kept.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from streams.dispatcher.part import AT_ONCE
from streams.dispatcher.step import Step
from streams.event_match import EventMatch, equalities, event_info
from streams.runtime.processor import Context
from streams.serde.codec import ENVELOPE
from streams.serde.keys import SEPARATOR, after, join, split
from streams.serde.records import Envelope, EventInfo
from streams.state.store import KeyValueStore
from streams.topology.model import Topology

_EVENT, _FOUND_BY, _LAST, _SINCE = b"d", b"f", b"g", b"c"
KEYS = {
    _EVENT: "recent events",
    _FOUND_BY: "by what these are found",
    _LAST: "the number of the last event",
    _SINCE: "since when events of a type are kept",
}
_NUMBER = struct.Struct(">Q")
_PLACE = struct.Struct(">QQ")
_STATE = struct.Struct(">QQQ")
_HEAD = struct.Struct(">?q")
_FEW = 32

APART_MS = 1_000
"""How far the clocks of brokers are apart that lead a topic's partition one after another."""


@dataclass(frozen=True)
class Offered:
    """An event with its number; `at` (milliseconds) is when the broker took it in.

    A `taken` one was given to a wait that takes events alone.
    """

    number: int
    at: int
    value: bytes
    taken: bool = False

    @cached_property
    def envelope(self) -> Envelope:
        return ENVELOPE.decode(self.value)

    @cached_property
    def info(self) -> EventInfo:
        return event_info(self.envelope)

    def packed(self) -> bytes:
        """What a store keeps of it beside the number."""
        return _HEAD.pack(self.taken, self.at) + self.value


def unpacked(number: int, value: bytes) -> Offered:
    """The event that a store keeps."""
    taken, at = _HEAD.unpack_from(value)
    return Offered(number, at, value[_HEAD.size :], taken)


class Place(NamedTuple):
    """A moment (milliseconds), and the number of the last event before it, or then."""

    at: int
    number: int


class RecentEvents:
    """The recent events of one partition."""

    def __init__(self, topology: Topology, ctx: Context) -> None:
        store = ctx.store("parts")
        self._keep_ms = topology.lookback_ms
        self._types = [(e.source, e.event_type) for e in topology.waited_for]
        self._since: dict[tuple[str, str], Place] = {}
        for key, value in store.range(_SINCE, after(_SINCE)):
            source, event_type = split(key[1:])
            self._since[source, event_type] = Place(*_PLACE.unpack(value))
        self._is_new = ctx.stream_time == 0
        self._last: int
        self._last, number, at = _STATE.unpack(store.get(_LAST) or bytes(_STATE.size))
        self._forgotten = Place(at, number)
        self._oldest = _EVENT
        self._is_empty = next(iter(store.range(_EVENT, after(_EVENT))), None) is None

    @property
    def last(self) -> int:
        """The number of the last event that was offered to waits."""
        return self._last

    @property
    def forgotten(self) -> int:
        """The number of the last event that was kept and is not any more."""
        return self._forgotten.number

    def number(self, step: Step) -> int:
        """The next event's number."""
        self._set(step, self._last + 1, self._forgotten)
        return self._last

    def concerns(self, envelope: Envelope) -> bool:
        """Whether events of this type are kept."""
        return any(
            fnmatchcase(envelope.source, source) and fnmatchcase(envelope.event_type, event_type)
            for source, event_type in self._types
        )

    @property
    def keeps_any(self) -> bool:
        return bool(self._types)

    def keep(self, step: Step, event: Offered) -> None:
        """Keep an event, or what has changed of it."""
        number, self._is_empty = _NUMBER.pack(event.number), False
        step.store.put(_EVENT + number, event.packed())
        for key in _found_by(event.envelope):
            step.store.put(key + number, _NUMBER.pack(max(0, event.at)))

    def take(self, step: Step, number: int) -> None:
        """Note that an event was given to a wait that takes events alone; it may be forgotten."""
        value = step.store.get(_EVENT + _NUMBER.pack(number))
        if value is not None:
            self.keep(step, replace(unpacked(number, value), taken=True))

    def is_taken(self, step: Step, number: int) -> bool:
        """Whether an event is kept that was given to a wait that takes events alone."""
        value = step.store.get(_EVENT + _NUMBER.pack(number))
        return value is not None and unpacked(number, value).taken

    def renewed(self, step: Step, event: Offered) -> Offered:
        """An event as it is kept now; unchanged if it is not."""
        value = step.store.get(_EVENT + _NUMBER.pack(event.number))
        return event if value is None else unpacked(event.number, value)

    def kept_since(self, step: Step, match: EventMatch) -> Place | None:
        """Since when all events that a match may take are kept; None: they are not.

        The globs of a match are kept if they are declared as they are, or fall under declared ones.
        """
        found = [
            self._since[each]
            for each in self._types
            if each in self._since and _covers(each, (match.source, match.event_type))
        ]
        if not found:
            return None
        declared, forgotten = min(found), self._forgotten
        at = max(declared.at, forgotten.at + 1, step.now - self._keep_ms)
        return Place(at, max(declared.number, forgotten.number))

    def behind(
        self, step: Step, tenant_id: str, match: EventMatch, behind: int, since: int
    ) -> Iterator[Offered]:
        """The kept events that a match finds by its equality, after a number, in their order."""
        prefix = _FOUND_BY + join(tenant_id, *match.equality) + SEPARATOR
        behind = self._shortly_before(step, prefix, behind, since)
        for at, number in _places(step.store, prefix, behind):
            value = step.store.get(_EVENT + _NUMBER.pack(number)) if at >= since else None
            if value is not None:
                yield unpacked(number, value)

    def _shortly_before(self, step: Step, prefix: bytes, behind: int, since: int) -> int:
        """The number behind which to look for what came `since`: before it may be very many.

        Events with higher numbers came later, but for `APART_MS`.
        """
        since -= APART_MS
        few = list(islice(_places(step.store, prefix, behind), _FEW))
        if len(few) < _FEW or few[-1].at >= since:
            return behind
        low, high = few[-1].number, self._last
        while low < high:
            middle = (low + high) // 2
            found = next(_places(step.store, prefix, middle), None)
            if found is None or found.at >= since:
                high = middle
            else:
                low = found.number
        return low

    def tick(self, step: Step) -> None:
        """Note since when events are kept, and forget some that are too old."""
        self.follow_declaration(step)
        if self._is_empty:
            return
        by, store = step.now - self._keep_ms, step.store
        step.on_undo(self._begin_at, self._oldest, self._is_empty)
        found = list(islice(store.range(self._oldest, after(_EVENT)), AT_ONCE))
        self._is_empty = not found
        for key, value in found:
            number = key[1:]
            event = unpacked(_NUMBER.unpack(number)[0], value)
            if event.at >= by:
                return
            self._oldest = key  # before it are only tombstones
            at = max(self._forgotten.at, event.at)
            self._set(step, self._last, Place(at, event.number))
            store.delete(key)
            for found_by in _found_by(event.envelope):
                store.delete(found_by + number)

    def follow_declaration(self, step: Step) -> None:
        """Note since when events of newly declared types are kept, and forget types."""
        declared = set(self._types)
        if declared == self._since.keys():
            return
        step.on_undo(setattr, self, "_since", dict(self._since))
        # An event before may have no number, if it concerned nobody.
        since = Place(0, 0) if self._is_new else Place(step.now, self.number(step))
        for gone in self._since.keys() - declared:
            step.store.delete(_SINCE + join(*gone))
        for new in declared - self._since.keys():
            step.store.put(_SINCE + join(*new), _PLACE.pack(*since))
        self._since = {each: self._since.get(each, since) for each in declared}

    def _set(self, step: Step, last: int, forgotten: Place) -> None:
        step.on_undo(self._return_to, self._last, self._forgotten)
        self._return_to(last, forgotten)
        step.store.put(_LAST, _STATE.pack(last, forgotten.number, forgotten.at))

    def _return_to(self, last: int, forgotten: Place) -> None:
        self._last, self._forgotten = last, forgotten

    def _begin_at(self, oldest: bytes, is_empty: bool) -> None:
        self._oldest, self._is_empty = oldest, is_empty


def _places(store: KeyValueStore, prefix: bytes, behind: int) -> Iterator[Place]:
    """The times and numbers of the events that an index has behind a number."""
    for key, at in store.range(prefix + _NUMBER.pack(behind + 1), after(prefix)):
        yield Place(_NUMBER.unpack(at)[0], _NUMBER.unpack(key[-_NUMBER.size :])[0])


def _found_by(envelope: Envelope) -> list[bytes]:
    return [
        _FOUND_BY + join(envelope.tenant_id, field, value) + SEPARATOR
        for field, value in equalities(envelope)
    ]


def _covers(declared: tuple[str, str], asked: tuple[str, str]) -> bool:
    return all(
        glob == name or (fnmatchcase(name, glob) and not set("*?[") & set(name)) or glob == "*"
        for glob, name in zip(declared, asked, strict=True)
    )

"""Keeps the events of the last hour or so that handlers wait for, for waits that begin after them.

Each event that is offered to waits gets the next number. Keys in the store `parts`: `d` number has
an event of a type that some job type `waits_for`; `f` tenant field value number finds it by an
equality; `g` is the last number; `c` source event_type says since when events of these globs are
kept.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice

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
_HEAD = struct.Struct(">?q")


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


class RecentEvents:
    """The recent events of one partition."""

    def __init__(self, topology: Topology, ctx: Context) -> None:
        store = ctx.store("parts")
        self._keep_ms = topology.lookback_ms
        self._types = [(e.source, e.event_type) for e in topology.waited_for]
        self._since: dict[tuple[str, str], int] = {}
        for key, value in store.range(_SINCE, after(_SINCE)):
            source, event_type = split(key[1:])
            self._since[source, event_type] = _NUMBER.unpack(value)[0]
        self._is_new = ctx.stream_time == 0
        self._last: int = _NUMBER.unpack(store.get(_LAST) or bytes(8))[0]
        self._oldest = _EVENT

    @property
    def last(self) -> int:
        """The number of the last event that was offered to waits."""
        return self._last

    def number(self, step: Step) -> int:
        """The next event's number."""
        step.on_undo(setattr, self, "_last", self._last)
        self._last += 1
        step.store.put(_LAST, _NUMBER.pack(self._last))
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
        number = _NUMBER.pack(event.number)
        step.store.put(_EVENT + number, event.packed())
        for key in _found_by(event.envelope):
            step.store.put(key + number, b"")

    def kept_since(self, match: EventMatch) -> int | None:
        """Since when all events that a match may take are kept (milliseconds); None: they are not.

        The globs of a match are kept if they are declared as they are, or fall under declared ones.
        """
        found = [
            self._since[each]
            for each in self._types
            if each in self._since and _covers(each, (match.source, match.event_type))
        ]
        return min(found, default=None)

    def reaches_to(self, step: Step) -> int:
        """How far back events are kept, in milliseconds."""
        return step.now - self._keep_ms

    def behind(
        self, step: Step, tenant_id: str, match: EventMatch, behind: int
    ) -> Iterator[Offered]:
        """The kept events that a match takes, after a number, in their order."""
        prefix = _FOUND_BY + join(tenant_id, *match.equality) + SEPARATOR
        for key, _ in step.store.range(prefix + _NUMBER.pack(behind + 1), after(prefix)):
            number = key[-_NUMBER.size :]
            value = step.store.get(_EVENT + number)
            if value is not None:
                event = unpacked(_NUMBER.unpack(number)[0], value)
                if match.takes(event.info):
                    yield event

    def tick(self, step: Step) -> None:
        """Note since when events are kept, and forget some that are too old."""
        self._follow_declaration(step)
        if not self._types and not self._since:
            return
        by, store = step.now - self._keep_ms, step.store
        step.on_undo(setattr, self, "_oldest", self._oldest)
        for key, value in list(islice(store.range(self._oldest, after(_EVENT)), AT_ONCE)):
            number = key[1:]
            event = unpacked(_NUMBER.unpack(number)[0], value)
            if event.at >= by:
                return
            self._oldest = key  # before it are only tombstones
            store.delete(key)
            for found_by in _found_by(event.envelope):
                store.delete(found_by + number)

    def _follow_declaration(self, step: Step) -> None:
        declared = set(self._types)
        if declared == self._since.keys():
            return
        step.on_undo(setattr, self, "_since", dict(self._since))
        since = 0 if self._is_new else step.now
        for gone in self._since.keys() - declared:
            _delete(step.store, gone)
        for new in declared - self._since.keys():
            step.store.put(_SINCE + join(*new), _NUMBER.pack(since))
        self._since = {each: self._since.get(each, since) for each in declared}


def _delete(store: KeyValueStore, globs: tuple[str, str]) -> None:
    store.delete(_SINCE + join(*globs))


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

"""Keeps events that no route matched, for as long as a redelivery is a duplicate.

Keys in the store `parts`: `u` fingerprint holds the event; `w` fingerprint holds the time until
which a new route gives the event its job without a redelivery; `y` time fingerprint says when the
event expires; `n` holds the number of kept events and how far they have expired; `r` holds the
routes that the kept events were last checked against.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from streams.runtime.processor import Context
from streams.serde.keys import after
from streams.state.store import KeyValueStore

_EVENT, _EXPECTED, _EXPIRY, _NUMBER, _ROUTES = b"u", b"w", b"y", b"n", b"r"
KEYS = {
    _EVENT: "events without a job",
    _EXPECTED: "until when a new route gives them one",
    _EXPIRY: "when they are forgotten",
    _NUMBER: "how many there are",
    _ROUTES: "the routes that they were held against",
}
_TIME = struct.Struct(">Q")
_STATE = struct.Struct(">QQ")
_HEAD = struct.Struct(">qqH")
_ALL, _PART = b"all", b"to:"
_LATE_MS = 86_400_000
"""A redelivery at the window's end may be read this much later, and must still find its event."""

FOR_EVER = 2**63


@dataclass(frozen=True, slots=True)
class Kept:
    """An event as it was on `events`; `at` is its event time in milliseconds."""

    at: int
    offset: int
    traceparent: str | None
    value: bytes


class KeptEvents:
    """The kept events of one partition; the whole state is in the store."""

    def __init__(self, ctx: Context, window_ms: int) -> None:
        self._ctx = ctx
        self._store: KeyValueStore = ctx.store("parts")
        value = self._store.get(_NUMBER)
        self._state: tuple[int, int] = (0, 0) if value is None else _STATE.unpack(value)
        self._keep_ms = window_ms + _LATE_MS

    def count(self) -> int:
        """The number of kept events; in memory as in the store."""
        return self._known()[0]

    def get(self, fingerprint: bytes) -> Kept | None:
        value = self._store.get(_EVENT + fingerprint)
        return None if value is None else _unpacked(value)

    def keep(self, fingerprint: bytes, event: Kept) -> None:
        """Keep an event until its window is over; replaces one of the same fingerprint."""
        count, gone = self._known()
        known = self._store.get(_EVENT + fingerprint) is not None
        self._store.put(_EVENT + fingerprint, _packed(event))
        due = max(event.at + self._keep_ms, gone)
        self._store.put(_EXPIRY + _TIME.pack(due) + fingerprint, b"")
        self._set(count + (not known), gone)

    def drop(self, fingerprint: bytes, event: Kept) -> None:
        """Forget a kept event."""
        count, gone = self._known()
        self._store.delete(_EVENT + fingerprint)
        self._store.delete(_EXPIRY + _TIME.pack(event.at + self._keep_ms) + fingerprint)
        if self._store.get(_EXPECTED + fingerprint) is not None:
            self._store.delete(_EXPECTED + fingerprint)
        self._set(count - 1, gone)

    def expect(self, fingerprint: bytes, until: int) -> None:
        """Give the event its job as soon as a route matches, until this time (milliseconds)."""
        if until > (self.expected_until(fingerprint) or 0):
            self._store.put(_EXPECTED + fingerprint, _TIME.pack(until))

    def expected_until(self, fingerprint: bytes) -> int | None:
        value = self._store.get(_EXPECTED + fingerprint)
        return None if value is None else int(_TIME.unpack(value)[0])

    def expected(self, behind: bytes, limit: int) -> list[tuple[bytes, int]]:
        """Fingerprints after `behind`, in order, and until when each event's job is expected."""
        start = _EXPECTED + behind + b"\0" if behind else _EXPECTED
        found = islice(self._store.range(start, after(_EXPECTED)), limit)
        return [(key[1:], _TIME.unpack(value)[0]) for key, value in found]

    def overdue(self, now: int, limit: int) -> Iterator[tuple[bytes, Kept]]:
        """Yield at most `limit` events whose time is over; the caller drops each."""
        count, gone = self._known()
        if not count:
            return
        due = self._store.range(_EXPIRY + _TIME.pack(gone), _EXPIRY + _TIME.pack(now + 1))
        for key in [key for key, _ in islice(due, limit)]:
            self._store.delete(key)
            gone, fingerprint = _TIME.unpack_from(key, 1)[0], key[1 + _TIME.size :]
            # Start from here next time: before it are only the tombstones of dropped events.
            self._set(self.count(), gone)
            event = self.get(fingerprint)
            if event is not None and event.at + self._keep_ms <= now:
                yield fingerprint, event

    def held_against(self, routes: bytes) -> bytes | None:
        """The last fingerprint checked against these routes (a digest); None if all were."""
        value = self._store.get(_ROUTES) or b""
        if not value.startswith(routes):
            return b""
        progress = value[len(routes) :]
        return None if progress == _ALL else progress.removeprefix(_PART)

    def hold_against(self, routes: bytes, cursor: bytes | None) -> None:
        """Remember the progress that `held_against` returns."""
        progress = _ALL if cursor is None else _PART + cursor
        self._store.put(_ROUTES, routes + progress)

    def _known(self) -> tuple[int, int]:
        return self._state

    def _set(self, count: int, gone: int) -> None:
        self._ctx.on_undo(setattr, self, "_state", self._state)
        self._state = count, gone
        self._store.put(_NUMBER, _STATE.pack(count, gone))


def _packed(event: Kept) -> bytes:
    trace = (event.traceparent or "").encode()
    return _HEAD.pack(event.at, event.offset, len(trace)) + trace + event.value


def _unpacked(value: bytes) -> Kept:
    at, offset, length = _HEAD.unpack_from(value)
    begin = _HEAD.size + length
    trace = value[_HEAD.size : begin].decode() or None
    return Kept(at, offset, trace, value[begin:])

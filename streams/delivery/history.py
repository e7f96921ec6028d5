"""Gives endpoints what happened between a setting of them and the moment the stage learned of that.

The inputs have no common order: an event can be read before the setting that preceded it. So an
endpoint that is new, is enabled, or has other filters is marked in the store if its setting is not
later than what was processed already. The stage reads `events` and `jobs` again from that time on,
a part in each punctuation, as far as they were processed then. A row that exists is not made again;
it is sent if it was parked although the endpoint had been enabled.

The log is read in rounds, each for all endpoints that are marked when it begins. One that is marked
during a round waits for the next, so that frequent settings put off nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, islice
from typing import Protocol

from streams.delivery.endpoint import Endpoint
from streams.delivery.store import IN_ROUND, MISSED, ROUND, DeliveryStore
from streams.delivery.transitions import Transitions
from streams.runtime.processor import Record
from streams.serde.keys import SEPARATOR, after, join
from streams.state.store import KeyValueStore

TOPICS = ("events", "jobs")
SLACK_MS = 60_000
"""How much earlier to begin and later to end: times are not in the order of offsets in `jobs`."""
_ENDPOINTS, _ROWS = 1_000, 1_000
"""For how many endpoints a round is, and after how many rows a part ends, behind a whole record."""
_WINDOW, _ROUND = struct.Struct(">QQQ"), struct.Struct(">QQBq")


@dataclass(frozen=True, slots=True)
class Window:
    """When an endpoint may have missed something: from `since` to `until`.

    What happened at `opened` or later is sent also if its row was parked; 0: none.
    """

    since: int
    opened: int
    until: int

    def has(self, time: int) -> bool:
        return self.since <= time <= self.until

    def unparks(self, time: int) -> bool:
        return 0 < self.opened <= time


WindowsOf = Callable[[str], Mapping[str, Window]]
"""The windows of a tenant's endpoints, by id."""
Admit = Callable[[Record, WindowsOf], int]
"""Gives a record to the endpoints whose windows have it; returns how many those are."""


@dataclass(frozen=True, slots=True)
class Part:
    """Records of one topic, the offset behind them, and whether they were the last for now."""

    records: Sequence[Record]
    position: int
    done: bool


class History(Protocol):
    """Reads a partition of an input again."""

    def read(self, topic: str, partition: int, since: int, offset: int) -> Part | None:
        """Records from an offset on or, if it is -1, from a time in milliseconds on.

        The first call begins to read and returns None; call it again until there is a part. A topic
        is done at the end that it had when its reading began, or later.
        """

    def forget(self, partition: int) -> None:
        """Drop what is being read for a partition: the next `read` finds the topic's end anew."""


@dataclass(frozen=True, slots=True)
class _Round:
    """One reading: the times from and to which it goes, its topic's place, and the next offset.

    The offset -1 stands for the first time.
    """

    since: int
    until: int
    topic: int = 0
    offset: int = -1

    def packed(self) -> bytes:
        return _ROUND.pack(self.since, self.until, self.topic, self.offset)


class Missed:
    """The endpoints of one partition that may have missed something."""

    def __init__(self, history: History, partition: int) -> None:
        self._history = history
        self._partition = partition
        self._next = MISSED  # the key from which the next round takes its endpoints
        self._pending = True  # the store may have such endpoints

    def restored(self) -> None:
        """Look for such endpoints again, after a start or a rollback."""
        self._pending = True

    def closed(self) -> None:
        """Drop what is being read: the partition is another process's, or the process ends."""
        self._history.forget(self._partition)

    def mark(self, endpoint: Endpoint, since: int, opened: int, steps: Transitions) -> None:
        """Note that an endpoint may have missed something since a time, if it may."""
        until, place = steps.store.watermark, join(endpoint.tenant_id, endpoint.id)
        for key in (IN_ROUND + place, MISSED + place):
            known = _window(steps.store.queue, key)
            if known is not None and opened > known.opened:  # what was parked before stays parked
                _put(steps.store.queue, key, replace(known, opened=opened))
        if until >= since:
            _widen(steps.store.queue, MISSED + place, Window(since, opened, until))
            self._pending = True

    def go_on(self, steps: Transitions, admit: Admit) -> bool:
        """Read the next part; returns whether anything was written."""
        if not self._pending:
            return False
        before = steps.store.queue.get(ROUND)
        if before is None:
            self._pending = self._begin(steps.store)
            return self._pending
        behind = self._part(_Round(*_ROUND.unpack(before)), steps, admit)
        if behind is None:
            self._end(steps.store)
        elif behind.packed() != before:
            steps.store.queue.put(ROUND, behind.packed())
        return behind is None or behind.packed() != before

    def _begin(self, store: DeliveryStore) -> bool:
        """Take the endpoints that are marked into a round; returns whether there are any."""
        self._history.forget(self._partition)  # the end that was found for it lies before theirs
        behind = store.queue.range(self._next, after(MISSED))
        marked = islice(chain(behind, store.queue.range(MISSED, self._next)), _ENDPOINTS)
        for key, value in list(marked):
            store.queue.delete(key)
            _widen(store.queue, IN_ROUND + key[len(MISSED) :], Window(*_WINDOW.unpack(value)))
            self._next = key + SEPARATOR
        windows = [Window(*_WINDOW.unpack(value)) for _, value in store.marked(IN_ROUND)]
        if windows:
            since, until = min(w.since for w in windows), max(w.until for w in windows)
            store.queue.put(ROUND, _Round(since, until).packed())
        return bool(windows)

    def _end(self, store: DeliveryStore) -> None:
        self._history.forget(self._partition)
        for place, _ in list(store.marked(IN_ROUND)):
            store.queue.delete(IN_ROUND + place)
        store.queue.delete(ROUND)

    def _part(self, now: _Round, steps: Transitions, admit: Admit) -> _Round | None:
        """Take in a part; returns the round behind it, None at its end."""
        part = self._history.read(TOPICS[now.topic], self._partition, now.since, now.offset)
        if part is None:
            return now
        windows_of = cache(lambda tenant_id: _windows_of(tenant_id, steps.store))
        rows = 0
        for record in part.records:
            if now.since <= record.timestamp <= now.until:
                rows += admit(record, windows_of)
            if rows >= _ROWS and record is not part.records[-1]:
                return replace(now, offset=record.offset + 1)
        if not part.done and not _passed(part, now.until):
            return replace(now, offset=part.position)
        return replace(now, topic=now.topic + 1, offset=-1) if now.topic + 1 < len(TOPICS) else None


def _windows_of(tenant_id: str, store: DeliveryStore) -> Mapping[str, Window]:
    found = store.marked(IN_ROUND + join(tenant_id, ""))
    return {id_.decode(): Window(*_WINDOW.unpack(value)) for id_, value in found}


def _window(queue: KeyValueStore, key: bytes) -> Window | None:
    value = queue.get(key)
    return None if value is None else Window(*_WINDOW.unpack(value))


def _widen(queue: KeyValueStore, key: bytes, window: Window) -> None:
    """Keep a window beside the one that is there, as one that has both."""
    known = _window(queue, key) or window
    since, until = min(known.since, window.since), max(known.until, window.until)
    _put(queue, key, Window(since, max(known.opened, window.opened), until))


def _put(queue: KeyValueStore, key: bytes, window: Window) -> None:
    queue.put(key, _WINDOW.pack(window.since, window.opened, window.until))


def _passed(part: Part, until: int) -> bool:
    """Whether everything behind a part happened later, and so was or will be read in its turn."""
    return min((record.timestamp for record in part.records), default=0) > until + SLACK_MS

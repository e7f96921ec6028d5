"""Gives endpoints what happened between a setting of them and the moment the stage learned of that.

The inputs have no common order: an event can be read before the setting that preceded it. So an
endpoint that is new, is enabled, or has other filters is marked in the store if its setting is not
later than what was processed already. The stage reads `inputs.TOPICS` again from that time on, a
part in each punctuation, as far as they were processed then. A row that exists is not made again;
it is sent if it was parked although the endpoint had been enabled.

The log is read in rounds, each for all endpoints that are marked when it begins. One that is marked
during a round waits for the next, so that frequent settings put off nothing.
An ordered endpoint waits meanwhile, and what it missed gets the place in its lane that it would
have had.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, islice
from typing import ClassVar

from streams.delivery.endpoint import Endpoint
from streams.delivery.history import SLACK_MS
from streams.delivery.history import Part as Stretch
from streams.delivery.in_flight import EndpointId
from streams.delivery.inputs import TOPICS, happening
from streams.delivery.part import Part
from streams.delivery.shared import Shared
from streams.delivery.step import Step
from streams.delivery.store import ORDER_BITS, DeliveryStore
from streams.errors import PoisonRecord
from streams.runtime.processor import Record
from streams.serde.keys import SEPARATOR, after, join, split
from streams.state.store import KeyValueStore

_MISSED, _IN_ROUND, _ROUND = b"M", b"N", b"n"
_ENDPOINTS, _ROWS = 1_000, 1_000
"""For how many endpoints a round is, and after how many rows a part ends, behind a whole record."""
_WINDOW, _PLACE = struct.Struct(">QQQ"), struct.Struct(">QQBq")


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
        return _PLACE.pack(self.since, self.until, self.topic, self.offset)


class Missed(Part):
    """The endpoints of one partition that may have missed something."""

    keys: ClassVar = {
        _MISSED: "endpoints that may have missed something",
        _IN_ROUND: "those for which the log is read again now",
        _ROUND: "how far that reading is",
    }

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._next = _MISSED  # the key from which the next round takes its endpoints
        self._pending = True  # the store may have such endpoints

    def restored(self, store: DeliveryStore) -> None:
        """Load for which endpoints the log has to be read."""
        for mark in (_MISSED, _IN_ROUND):
            self.shared.catching_up.update(_id_of(place) for place, _ in store.marked(mark))

    def closed(self) -> None:
        """Drop what is being read: the partition is another process's, or the process ends."""
        self.shared.history.forget(self.shared.partition)

    def wants_more(self, step: Step, endpoint: Endpoint, since: int, opened: int) -> None:
        """Note that an endpoint may have missed something since a time, if it may."""
        until, place = step.store.watermark, join(endpoint.tenant_id, endpoint.id)
        for key in (_IN_ROUND + place, _MISSED + place):
            known = _window(step.store.queue, key)
            if known is not None and opened > known.opened:  # what was parked before stays parked
                _put(step.store.queue, key, replace(known, opened=opened))
        if until >= since:
            _widen(step.store.queue, _MISSED + place, Window(since, opened, until))
            self._pending = True
            if endpoint.place not in self.shared.catching_up:
                step.on_undo(self.shared.catching_up.discard, endpoint.place)
                self.shared.catching_up.add(endpoint.place)

    def tick(self, step: Step) -> None:
        """Read the next part."""
        if not self._pending:
            return
        step.on_undo(setattr, self, "_pending", True)
        before = step.store.queue.get(_ROUND)
        if before is None:
            self._pending = self._begin(step.store)
            return
        behind = self._part(_Round(*_PLACE.unpack(before)), step)
        if behind is None:
            self._end(step)
        elif behind.packed() != before:
            step.store.queue.put(_ROUND, behind.packed())

    def rests(self, until: int) -> bool:
        """Whether nothing is read again."""
        return not self._pending

    def _begin(self, store: DeliveryStore) -> bool:
        """Take the endpoints that are marked into a round; returns whether there are any."""
        self._forget()  # the end that was found for it lies before theirs
        behind = store.queue.range(self._next, after(_MISSED))
        marked = islice(chain(behind, store.queue.range(_MISSED, self._next)), _ENDPOINTS)
        for key, value in list(marked):
            store.queue.delete(key)
            _widen(store.queue, _IN_ROUND + key[len(_MISSED) :], Window(*_WINDOW.unpack(value)))
            self._next = key + SEPARATOR
        windows = [Window(*_WINDOW.unpack(value)) for _, value in store.marked(_IN_ROUND)]
        if windows:
            since, until = min(w.since for w in windows), max(w.until for w in windows)
            store.queue.put(_ROUND, _Round(since, until).packed())
        return bool(windows)

    def _end(self, step: Step) -> None:
        self._forget()
        for place, _ in list(step.store.marked(_IN_ROUND)):
            step.store.queue.delete(_IN_ROUND + place)
            if step.store.queue.get(_MISSED + place) is None:
                self._caught_up(_id_of(place), step)
        step.store.queue.delete(_ROUND)

    def _caught_up(self, endpoint_id: EndpointId, step: Step) -> None:
        step.on_undo(self.shared.catching_up.add, endpoint_id)
        self.shared.catching_up.discard(endpoint_id)
        endpoint = self.shared.endpoints.get(*endpoint_id)
        if endpoint is not None:
            self.shared.ready.turn(endpoint)

    def _forget(self) -> None:
        self.shared.history.forget(self.shared.partition)

    def _part(self, now: _Round, step: Step) -> _Round | None:
        """Take in a part; returns the round behind it, None at its end."""
        partition, topic = self.shared.partition, TOPICS[now.topic]
        part = self.shared.history.read(topic, partition, now.since, now.offset)
        if part is None:
            return now
        windows_of = cache(lambda tenant_id: _windows_of(tenant_id, step.store))
        rows = 0
        for record in part.records:
            if now.since <= record.timestamp <= now.until:
                rows += _admit(record, windows_of, step)
            if rows >= _ROWS and record is not part.records[-1]:
                return replace(now, offset=record.offset + 1)
        if not part.done and not _passed(part, now.until):
            return replace(now, offset=part.position)
        behind = now.topic + 1
        return replace(now, topic=behind, offset=-1) if behind < len(TOPICS) else None


def _admit(record: Record, windows_of: Callable[[str], Mapping[str, Window]], step: Step) -> int:
    """Give endpoints what they should have got when a record was first read; returns how many."""
    try:
        told = happening(record, step)
    except PoisonRecord:
        return 0  # its dead letter was written when it was first read
    if told is None:
        return 0
    message, happened = told
    windows = windows_of(message.tenant_id).items()
    having = {id_: window for id_, window in windows if window.has(record.timestamp)}
    endpoints = step.shared.endpoints
    wanting = endpoints.wanting(message) if having else ()
    wanting = [e for e in wanting if e.id in having and e.since <= happened]
    place = (record.timestamp << ORDER_BITS) + record.offset % (1 << ORDER_BITS)
    step.enter(message, wanting, lambda: place)
    for id_, window in having.items():
        endpoint = endpoints.get(message.tenant_id, id_)
        if endpoint is not None and window.unparks(happened):
            step.unpark(message, endpoint)
    return len(having)


def _windows_of(tenant_id: str, store: DeliveryStore) -> Mapping[str, Window]:
    found = store.marked(_IN_ROUND + join(tenant_id, ""))
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


def _passed(part: Stretch, until: int) -> bool:
    """Whether everything behind a part happened later, and so was or will be read in its turn."""
    return min((record.timestamp for record in part.records), default=0) > until + SLACK_MS


def _id_of(place: bytes) -> EndpointId:
    tenant_id, endpoint_id = split(place)
    return tenant_id, endpoint_id

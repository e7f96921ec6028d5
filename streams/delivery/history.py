"""Gives an endpoint what happened between a setting of it and the moment the stage learned of that.

The inputs have no common order: an event can be read before the setting that preceded it. So an
endpoint that is new, is enabled, or has other filters is marked in the store if its setting is not
later than what was processed already. The stage reads `events` and `jobs` again from that time on,
a part in each punctuation, as far as they were processed then. A row that exists is not made again;
it is sent if it was parked although the endpoint had been enabled.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from streams.delivery.endpoint import Endpoint
from streams.delivery.store import MISSED
from streams.delivery.transitions import Transitions
from streams.runtime.processor import Record
from streams.serde.keys import SEPARATOR, after, join, split

TOPICS = ("events", "jobs")
SLACK_MS = 60_000
"""How much earlier to begin and later to end: times are not in the order of offsets in `jobs`."""
_STATE = struct.Struct(">QQQBq")
"""The first time of what was missed, the time from which on parked rows are sent (0: none are), the
last time, the topic's place in `TOPICS`, and the next offset; -1: by time."""

Admit = Callable[[Record, Endpoint, bool], None]
"""Makes the row of a record for one endpoint, if it wants it; if told to, sends one that is parked.
"""


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


class Missed:
    """The endpoints of one partition that may have missed something.

    The log is read for one of them after the other, each to its end. One that is marked again waits
    behind the others, so that frequent settings of one endpoint put off no other.
    """

    def __init__(self, history: History, partition: int) -> None:
        self._history = history
        self._partition = partition
        self._place = b""  # the endpoint for which the log was read last
        self._reading = False  # and not to its end yet
        self._pending = True  # the store may have such endpoints

    def restored(self) -> None:
        """Look for such endpoints again, after a start or a rollback."""
        self._pending = True

    def closed(self) -> None:
        """Drop what is being read: the partition is another process's, or the process ends."""
        self._history.forget(self._partition)

    def mark(self, endpoint: Endpoint, since: int, opened: int, steps: Transitions) -> None:
        """Note that an endpoint may have missed something since a time, if it may.

        What happened at `opened` or later is sent also if its row was parked; 0: none.
        """
        until, place = steps.store.watermark, join(endpoint.tenant_id, endpoint.id)
        if until < since:
            return
        known = steps.store.queue.get(MISSED + place)
        if known is not None:  # what it missed before has not been read to its end
            before = _STATE.unpack(known)
            since, opened = min(since, before[0]), max(opened, before[1])
        steps.store.queue.put(MISSED + place, _STATE.pack(since, opened, until, 0, -1))
        self._pending = True
        if place == self._place:
            self._reading = False  # the end that was found for it lies before this

    def go_on(self, steps: Transitions, admit: Admit) -> bool:
        """Read the next part for one endpoint; returns whether anything was written."""
        place = self._next(steps) if self._pending else None
        self._pending = place is not None
        if place is None:
            return False
        if place != self._place or not self._reading:
            self._history.forget(self._partition)
            self._place, self._reading = place, True
        key, queue = MISSED + place, steps.store.queue
        before = queue.get(key) or b""
        after_part = self._part(before, steps.endpoints.get(*split(place)), admit)
        self._reading = after_part is not None
        if after_part is None:
            self._history.forget(self._partition)
            queue.delete(key)
        elif after_part != before:
            queue.put(key, after_part)
        return after_part != before

    def _next(self, steps: Transitions) -> bytes | None:
        """The endpoint to read for now: the one at hand, or the next in the order of the keys."""
        last = MISSED + self._place
        if self._reading and steps.store.queue.get(last) is not None:
            return self._place
        for start in (last + SEPARATOR, MISSED):
            for key, _ in steps.store.queue.range(start, after(MISSED)):
                return key[len(MISSED) :]
        return None

    def _part(self, state: bytes, endpoint: Endpoint | None, admit: Admit) -> bytes | None:
        """Take in a part; returns the state behind it, which is None once all is read."""
        since, opened, until, topic, offset = _STATE.unpack(state)
        if endpoint is None:
            return None
        part = self._history.read(TOPICS[topic], self._partition, since, offset)
        if part is None:
            return state
        for record in part.records:
            if since <= record.timestamp <= until:
                admit(record, endpoint, 0 < opened <= record.timestamp)
        if not part.done and not _passed(part, until):
            return _STATE.pack(since, opened, until, topic, part.position)
        if topic + 1 < len(TOPICS):
            return _STATE.pack(since, opened, until, topic + 1, -1)
        return None


def _passed(part: Part, until: int) -> bool:
    """Whether everything behind a part happened later, and so was or will be read in its turn."""
    return min((record.timestamp for record in part.records), default=0) > until + SLACK_MS

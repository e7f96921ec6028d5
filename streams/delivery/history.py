"""Gives an endpoint what happened between a setting of it and the moment the stage learned of that.

The inputs have no common order: an event can be read before the setting that preceded it. So an
endpoint that is new, or has other filters, is marked in the store if its setting is not later than
what was processed already. The stage reads `events` and `jobs` again from that time on, a part in
each punctuation, as far as they were processed then. A row that exists is not made again.
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
from streams.serde.keys import join, split

TOPICS = ("events", "jobs")
SLACK_MS = 60_000
"""How much earlier to begin and later to end: times are not in the order of offsets in `jobs`."""
_STATE = struct.Struct(">QQBq")
"""The first and last time of what was missed, the topic's place in `TOPICS`, and the next offset;
-1: by time."""

Admit = Callable[[Record, Endpoint], None]
"""Makes the row of a record for one endpoint, if it wants it."""


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


def mark_missed(endpoint: Endpoint, since: int, steps: Transitions) -> None:
    """Note that an endpoint may have missed something since a time, if it may."""
    until, key = steps.store.watermark, MISSED + join(endpoint.tenant_id, endpoint.id)
    if until < since:
        return
    known = steps.store.queue.get(key)
    if known is not None:  # what it missed before has not been read to its end
        since = min(since, _STATE.unpack(known)[0])
    steps.store.queue.put(key, _STATE.pack(since, until, 0, -1))


def take_missed(history: History, partition: int, steps: Transitions, admit: Admit) -> bool | None:
    """Go on with one such endpoint; whether it got on, or None if there is none."""
    for place, value in steps.store.marked(MISSED):
        since, until, topic, offset = _STATE.unpack(value)
        endpoint = steps.endpoints.get(*split(place))
        if endpoint is None:
            steps.store.queue.delete(MISSED + place)
            return True
        part = history.read(TOPICS[topic], partition, since, offset)
        if part is None:
            return False
        for record in part.records:
            if since <= record.timestamp <= until:
                admit(record, endpoint)
        key, queue = MISSED + place, steps.store.queue
        if not part.done and not _passed(part, until):
            queue.put(key, _STATE.pack(since, until, topic, part.position))
        elif topic + 1 < len(TOPICS):
            queue.put(key, _STATE.pack(since, until, topic + 1, -1))
        else:
            queue.delete(key)
        return True
    return None


def _passed(part: Part, until: int) -> bool:
    """Whether everything behind a part happened later, and so was or will be read in its turn."""
    return min((record.timestamp for record in part.records), default=0) > until + SLACK_MS

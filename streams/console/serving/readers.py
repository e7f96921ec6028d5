"""What the readers of pages share: how far each topic was read, looked up once for all of them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from aiohttp import web

from streams.api.operator_state import AppState
from streams.api.read_model.follower import seconds_behind
from streams.process.wall_clock import wall_ms

_LOOKED_EVERY_SECONDS = 0.5
_LATE_SECONDS = 10.0
_PAGES_A_SECOND = 20
"""So many pages at most are fetched anew in a second, because readers were told of changes."""


class Readers:
    """Belongs to one event loop; `closing` is set when the process ends."""

    def __init__(self, state: AppState) -> None:
        self.closing = asyncio.Event()
        self.count = 0
        self._state = state
        self._looked: dict[str, tuple[float, str]] = {}

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Count a reader as long as the context lasts."""
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1

    @property
    def pause_seconds(self) -> float:
        """How long a reader is told of one change at most: the longer, the more readers fetch."""
        return max(1.0, self.count / _PAGES_A_SECOND)

    @property
    def late_seconds(self) -> int:
        """How old all rows are at least, if they are so old that readers must know it, else 0."""
        lag = self._state.follower.lag
        seconds = 0.0 if lag is None else seconds_behind(lag, wall_ms())
        return int(seconds) if seconds >= _LATE_SECONDS else 0

    def read(self) -> Mapping[str, str]:
        """Return how far each topic was read by now, at least."""
        return {topic: self._position(topic) for topic in self._state.topology.topics}

    def position(self, topics: Collection[str], read: Mapping[str, str] | None = None) -> str:
        """Return what differs once a record of a topic was folded in: of now, or of `read`."""
        places = ((read or {}).get(each) or self._position(each) for each in sorted(set(topics)))
        return hashlib.blake2b(",".join(places).encode(), digest_size=8).hexdigest()

    def _position(self, topic: str) -> str:
        now = asyncio.get_running_loop().time()
        at, known = self._looked.get(topic, (float("-inf"), ""))
        if now - at < _LOOKED_EVERY_SECONDS:
            return known
        partitions = range(self._state.topology.partitions)
        found = repr([self._state.follower.folded((topic, each)) for each in partitions])
        self._looked[topic] = now, found
        return found


READ: web.RequestKey[Mapping[str, str]] = web.RequestKey("console_read", Mapping)
"""How far topics were read when a page began to ask."""

READERS: web.AppKey[Readers] = web.AppKey("console_readers", Readers)

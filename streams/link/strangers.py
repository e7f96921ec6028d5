"""Ends the connections of a server over which nothing is asked.

The process of an owner needs its descriptors for its stores. aiohttp waits for ever for the first
request of a connection, and whoever reaches the port may open some.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

ASK_SECONDS = 5.0
"""How long a connection may take until its first request was read."""
MOST = 1_000
"""So many connections may do so at once; the newest beyond them are ended."""


class Strangers:
    """The connections of one server that have asked nothing; it belongs to one event loop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[asyncio.BaseTransport, float] = {}
        self._known: set[asyncio.BaseTransport] = set()

    @contextmanager
    def asks(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        """Within the block a request of a connection is answered."""
        if transport is None:
            yield
            return
        self._known.add(transport)
        try:
            yield
        finally:
            self._known.discard(transport)

    def end(self, transports: Iterable[asyncio.Transport | None]) -> None:
        """End those among the open connections that have asked nothing for too long."""
        now = self._clock()
        found = [each for each in transports if each is not None and each not in self._known]
        self._since = {each: self._since.get(each, now) for each in found}
        for number, transport in enumerate(sorted(found, key=self._since.__getitem__)):
            if number >= MOST or now - self._since[transport] >= ASK_SECONDS:
                transport.abort()

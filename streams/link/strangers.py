"""Ends the connections of a server over which no worker says hello.

The process of an owner needs its descriptors for its stores. aiohttp waits for ever for the first
request of a connection, and whoever reaches the port may open some.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

HELLO_SECONDS = 5.0
"""How long a connection may take until its hello was read."""
MOST = 1_000
"""So many may do so at once; the newest beyond them are ended."""


class Strangers:
    """The connections of one server without a hello; it belongs to one event loop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[asyncio.Transport, float] = {}

    def end(self, transports: Iterable[asyncio.Transport]) -> None:
        """End those among the present strangers that are too slow, or too many."""
        now = self._clock()
        self._since = {each: self._since.get(each, now) for each in transports}
        ordered = sorted(self._since, key=self._since.__getitem__)
        for number, transport in enumerate(ordered):
            if number >= MOST or now - self._since[transport] >= HELLO_SECONDS:
                transport.abort()

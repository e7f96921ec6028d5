"""Ends open streams whose reader may read no more: the token is revoked, or its time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY_SECONDS = 0.5

Stands = Callable[[], bool]
End = Callable[[], None]


class AccessWatch:
    """The open streams of one event loop, each with whose it is and how it is ended."""

    def __init__(self) -> None:
        self._open: dict[object, tuple[str, Stands, End]] = {}

    @contextmanager
    def watching(
        self, principal_id: str, stands: Stands, end: Callable[[], None]
    ) -> Iterator[None]:
        """Call `end` if the principal stands no more before the block is left."""
        stream = object()
        self._open[stream] = principal_id, stands, end
        try:
            yield
        finally:
            self._open.pop(stream, None)

    def sweep(self) -> None:
        """End the streams of those who may not read any more; ask once for each principal."""
        stand: dict[str, bool] = {}
        for stream, (principal_id, stands, end) in list(self._open.items()):
            if principal_id not in stand:
                stand[principal_id] = stands()
            if not stand[principal_id]:
                self._open.pop(stream, None)
                end()

    async def run(self) -> None:
        """Sweep until this task is cancelled."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            self.sweep()

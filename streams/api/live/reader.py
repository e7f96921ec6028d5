"""One open stream: it waits until something of its jobs changed, reads that, and sends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from math import inf
from typing import TYPE_CHECKING

from streams.api.live.frames import Frame, moved, written
from streams.api.live.page import PAGE_BYTES, WORKFLOW, Change, Page
from streams.api.live.position import HOUR_MS, TOPIC_OF_JOBS
from streams.api.live.reading import Reading
from streams.process.wall_clock import wall_ms

if TYPE_CHECKING:
    from streams.api.live.hub import Hub

QUIET_SECONDS = 15.0
"""After so long without a frame a stream sends its position, so that no proxy ends it."""
_SOON_SECONDS = 0.01
"""A timer may fire a little early, and one for less than that would fire over and over."""

Send = Callable[[bytes], Awaitable[None]]


class Reader:
    """A stream from its position on. `send` returns when the socket has room again.

    With `tenants`, only their rows exist for it: even why a job waits tells nothing of others.
    """

    def __init__(
        self, hub: Hub, reading: Reading, send: Send, tenants: frozenset[str] | None
    ) -> None:
        self._hub = hub
        self._reading = reading
        self._send = send
        self._tenants = tenants
        self._changed: set[Change] = set()
        self._awake = asyncio.Event()
        self._closed = False
        self._is_first = True
        self._is_quiet = False
        self._sent_at = 0.0

    def wake(self, changed: Iterable[Change]) -> None:
        """Have the reader look at these changes."""
        self._changed.update(changed)
        self._awake.set()

    def close(self) -> None:
        """End the stream without an end: whoever reads resumes elsewhere."""
        self._closed = True
        self._awake.set()

    async def run(self, first: Iterable[Frame] = ()) -> None:
        """Send frames until the reader was told all ends.

        Raises:
            ConnectionError: the reader has left, or is too slow.
            Refusal: the read model does not catch up.
        """
        await self._write(first)
        self._hub.attend(self, self._reading.interests)
        loop = asyncio.get_running_loop()
        self._sent_at = loop.time()
        self._silence = loop.call_later(QUIET_SECONDS, self._listen, loop)
        try:
            self.wake(self._reading.everything)
            while not self._closed:
                await self._go_on()
                if self._reading.is_over:
                    return
                await self._awake.wait()
        finally:
            self._silence.cancel()
            self._hub.leave(self)

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake the reader if it sent nothing for so long, and listen again when it may be so."""
        left = self._sent_at + QUIET_SECONDS - loop.time()
        if left < _SOON_SECONDS:
            self._is_quiet, self._sent_at, left = True, loop.time(), QUIET_SECONDS
            self._awake.set()
        self._silence = loop.call_later(left, self._listen, loop)

    async def _go_on(self) -> None:
        """Look at what changed; if nothing did for long, show that the stream lives."""
        self._awake.clear()
        if self._changed:
            await self._look()
        elif self._is_quiet:
            self._reading.position.hour = wall_ms() // HOUR_MS
            await self._sent(moved(str(self._reading.position)))
            if waiting := self._reading.waiting:
                self.wake(waiting)

    async def _look(self) -> None:
        """Send what is new of the changes; those that come meanwhile are looked at next."""
        changed, self._changed = self._changed, set()
        before = self._reading.interests
        heard = self._hub.heard() if self._reading.is_of_several else None
        if self._reading.home is not None:
            # Topics are read at a pace of their own: the jobs of what was heard become rows first.
            await self._hub.settle(self._reading.home, TOPIC_OF_JOBS)
            changed.add(WORKFLOW)
        page: Page = await self._hub.reads.read(
            lambda db: self._reading.page(db, changed, heard), self._tenants
        )
        if self._reading.interests is not before:
            self._hub.attend(self, self._reading.interests)
            if self._reading.unheard:
                self.wake(self._reading.unheard)
        await self._write(page.frames, page.oldest)
        if page.unsettled:
            partitions = {partition for partition, _ in page.unsettled}
            await asyncio.gather(*(self._hub.settle(each) for each in partitions))
            self._reading.settle(page.unsettled)
        if page.again:
            self.wake(page.again)

    async def _write(self, frames: Iterable[Frame], oldest: float = inf) -> None:
        """Send frames, each with the position behind it.

        An id that comes before old records is as old as they are, because they may go soon.
        """
        position = self._reading.position
        position.hour = int(min(wall_ms(), oldest)) // HOUR_MS
        unsent = bytearray()
        for frame in frames:
            position.see(frame)
            if frame.data is not None:
                unsent += written(frame, str(position), first=self._is_first)
                self._is_first = False
            if len(unsent) >= PAGE_BYTES:
                await self._sent(bytes(unsent))
                unsent.clear()
        if unsent:
            await self._sent(bytes(unsent))

    async def _sent(self, piece: bytes) -> None:
        self._sent_at, self._is_quiet = asyncio.get_running_loop().time(), False
        await self._send(piece)

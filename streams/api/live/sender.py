"""Sends to a reader, and breaks off if it is too slow: it resumes, and holds nobody up."""

from __future__ import annotations

import asyncio

from streams.api.live.reader import Send

MOST_UNSENT_BYTES = 256 * 1024
SLOW_SECONDS = 5.0
"""A reader that has more than `MOST_UNSENT_BYTES` unsent for so long is closed, and resumes."""
_AT_ONCE_BYTES = 64 * 1024
"""A large event is sent in such parts, so that it may take longer on a slow line."""


def sender(write: Send, transport: asyncio.Transport | None) -> Send:
    """Return what writes to a reader's transport, and breaks off if the reader is too slow."""
    if transport is not None:
        high = MOST_UNSENT_BYTES
        transport.set_write_buffer_limits(high, low=high - _AT_ONCE_BYTES)

    async def send(piece: bytes) -> None:
        for begin in range(0, len(piece), _AT_ONCE_BYTES):
            part = piece[begin : begin + _AT_ONCE_BYTES]
            if transport is None or not transport.get_write_buffer_size():
                await write(part)  # there is room, so it waits for nobody
            else:
                await _written(write, part)

    return send


async def _written(write: Send, part: bytes) -> None:
    try:
        async with asyncio.timeout(SLOW_SECONDS):
            await write(part)
    except TimeoutError:
        raise ConnectionResetError("the reader is too slow") from None

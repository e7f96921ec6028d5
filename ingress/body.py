"""Reads a request's raw body, bounded in size and time."""

from __future__ import annotations

import asyncio

from aiohttp import web

from ingress.problems import MALFORMED, SLOW_BODY, TOO_LARGE, Refused

MAX_BODY_BYTES = 1024 * 1024
BODY_SECONDS = 10.0


async def read_body(
    request: web.BaseRequest, max_bytes: int = MAX_BODY_BYTES, seconds: float = BODY_SECONDS
) -> bytes:
    """The bytes as they came, not decompressed: they are what was signed.

    Raises:
        Refused: 413 for a declared or streamed length above the cap, 408 for a slow sender,
            400 for a broken transfer encoding.
    """
    declared = request.content_length
    if declared is not None and declared > max_bytes:
        raise Refused(TOO_LARGE, f"at most {max_bytes} bytes")
    if request.content.is_eof():
        body = request.content.read_nowait()
        _require_room(body, max_bytes)
        return body
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    try:
        async with asyncio.timeout(seconds):
            return await _streamed(request, max_bytes)
    except TimeoutError:
        raise Refused(SLOW_BODY, f"it is waited for {seconds:g} seconds") from None
    except web.RequestPayloadError:
        raise Refused(MALFORMED, "its transfer encoding is broken") from None


async def _streamed(request: web.BaseRequest, max_bytes: int) -> bytes:
    body = bytearray()
    while piece := await request.content.readany():
        body += piece
        _require_room(body, max_bytes)
    return bytes(body)


def _require_room(body: bytes | bytearray, max_bytes: int) -> None:
    if len(body) > max_bytes:
        raise Refused(TOO_LARGE, f"at most {max_bytes} bytes")

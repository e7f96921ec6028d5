"""Reads a request's raw body, bounded in size and time."""

from __future__ import annotations

import asyncio
from collections import Counter
from io import BytesIO
from typing import Self

from aiohttp import web

from ingress.receive.problems import BAD_REQUEST, BUSY, SLOW_BODY, TOO_LARGE, Refused

BODY_SECONDS = 10.0
SMALL_BYTES = 64 * 1024
REQUEST_BYTES = 16 * 1024
"""What a request costs beside its body: its head, its objects and its task take 10 to 15 kB."""
_FOR_SMALL = 8
"""One part in this many of the budget is kept for bodies with a declared length of at most
`SMALL_BYTES`, like most webhooks, so that senders of large bodies do not shut them out."""
_SHARE = 3
"""All that requests to one tenant hold is at most so many times what stays free."""


class MemoryBudget:
    """Bounds what requests in flight hold, so that unverified senders cannot fill the memory.

    Each tenant of a path, whether it exists or not, leaves room to others.
    """

    def __init__(self, total_bytes: int) -> None:
        self._free = total_bytes
        self._kept = total_bytes // _FOR_SMALL
        self._held: Counter[str] = Counter()

    def reserve(self, tenant_id: str, declared: int | None) -> Reservation:
        """One request's part of the budget; as a context manager it returns its bytes at exit."""
        small = declared is not None and declared <= SMALL_BYTES
        return Reservation(self, tenant_id, small=small)

    def take(self, tenant_id: str, count: int, own: int, *, small: bool) -> None:
        """Take bytes for a request that has `own`; raises `Refused` (429) if they are not free."""
        left = self._free - count - (0 if small else self._kept)
        held = self._held[tenant_id]
        if left < 0 or (held > own and held + count > _SHARE * left):
            raise Refused(BUSY)
        self._free -= count
        self._held[tenant_id] += count

    def give_back(self, tenant_id: str, count: int) -> None:
        self._free += count
        self._held[tenant_id] -= count
        if not self._held[tenant_id]:
            del self._held[tenant_id]


class Reservation:
    """The bytes of the budget that one request holds, `REQUEST_BYTES` and its body."""

    def __init__(self, budget: MemoryBudget, tenant_id: str, *, small: bool) -> None:
        self._budget = budget
        self._tenant_id = tenant_id
        self._small = small
        self._held = 0

    def __enter__(self) -> Self:
        """Hold what a request costs without a body.

        Raises:
            Refused: 429, the budget is spent.
        """
        self._hold(REQUEST_BYTES)
        return self

    def __exit__(self, *raised: object) -> None:
        self._budget.give_back(self._tenant_id, self._held)

    def grow(self, size: int) -> None:
        """Hold `size` bytes of body in all.

        Bytes are taken as they arrive, not by the declared length: a sender can use up the budget
        only with bytes that it really sends.

        Raises:
            Refused: 429, the budget is spent.
        """
        self._hold(REQUEST_BYTES + size)

    def _hold(self, size: int) -> None:
        self._budget.take(self._tenant_id, size - self._held, self._held, small=self._small)
        self._held = size


async def read_body(
    request: web.BaseRequest,
    reservation: Reservation,
    max_bytes: int,
    seconds: float = BODY_SECONDS,
) -> bytes:
    """The bytes as they came, not decompressed, because the signature covers exactly these.

    Raises:
        Refused: 413 for a declared or streamed length above the cap, 408 for a slow sender,
            400 for a broken transfer encoding, 429 if the budget is spent.
        ConnectionError: the sender has gone.
    """
    declared = request.content_length
    if declared is not None and declared > max_bytes:
        raise Refused(TOO_LARGE, f"at most {max_bytes} bytes are accepted")
    if request.content.is_eof():
        body = request.content.read_nowait()
        _hold(len(body), reservation, max_bytes)
        return body
    await ask_for_body(request)
    try:
        async with asyncio.timeout(seconds):
            return await _streamed(request, reservation, max_bytes)
    except TimeoutError:
        raise Refused(SLOW_BODY, f"the whole body must arrive within {seconds:g} seconds") from None
    except web.RequestPayloadError:
        raise Refused(BAD_REQUEST, "its transfer encoding is broken") from None


async def ask_for_body(request: web.BaseRequest) -> None:
    """Send 100 to a sender that expects it before its body (RFC 9110, section 10.1.1)."""
    waits = request.headers.get("Expect", "").lower() == "100-continue"
    if waits and not request.content.is_eof():
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0


async def _streamed(request: web.BaseRequest, reservation: Reservation, max_bytes: int) -> bytes:
    with BytesIO() as body:  # `getvalue` does not copy the gathered bytes
        while piece := await _next_piece(request):
            _hold(body.tell() + len(piece), reservation, max_bytes)
            body.write(piece)
        return body.getvalue()


async def _next_piece(request: web.BaseRequest) -> bytes:
    """The bytes that came since, none at the end of the body.

    aiohttp raises what ended the connection, which may be any `OSError`. If the connection was lost
    before its handler began, it raises a `RuntimeError`.
    """
    try:
        return await request.content.readany()
    except (OSError, RuntimeError):
        if request.transport is not None:
            raise
        raise ConnectionResetError("the sender went before its body was whole") from None


def _hold(size: int, reservation: Reservation, max_bytes: int) -> None:
    if size > max_bytes:
        raise Refused(TOO_LARGE, f"at most {max_bytes} bytes are accepted")
    reservation.grow(size)

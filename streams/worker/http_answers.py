"""Answers of `ctx.http`, and what their status proves about an effect."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from aiohttp import ClientPayloadError, ClientResponse, ClientResponseError, RequestInfo
from aiohttp.typedefs import JSONDecoder

from streams.delivery.egress.retry_after import retry_after_seconds
from streams.errors import JobError, PermanentError, RetryAfter, TransientError
from streams.worker.tool_call import proof

_NOT_HERE = frozenset({307, 308})
"""The request is to be made elsewhere, by the same method (RFC 9110, sections 15.4.8 and 9)."""
_ELSEWHERE = _NOT_HERE | {301}
"""302 and 303 also lead from what was done to a page about it."""

_REFUSED = frozenset({400, 403, 404, 405, 406, 410, 411, 413, 414, 415, 422, 431})
"""The server did not do it, and would not do it if it were asked again (RFC 9110, section 15.5)."""


_MOST_BYTES = 64 * 1024 * 1024
"""A service that answers without end would fill the memory of all runs."""


class Answer(ClientResponse):
    """aiohttp's answer, whose `raise_for_status` tells "nothing was done" from "nobody knows"."""

    is_alone: Callable[[], bool] | None = None
    """Whether no other request of the same effect may have done something."""

    async def read(self) -> bytes:
        """The body.

        Raises:
            aiohttp.ClientPayloadError: it has more than 64 MiB: read `content` in pieces.
        """
        if self._body is None:
            self._body = await self._bounded()
        return await super().read()

    async def _bounded(self) -> bytes:
        pieces, size = list[bytes](), 0
        try:
            async for piece in self.content.iter_any():
                pieces.append(piece)
                size += len(piece)
                if size > _MOST_BYTES:
                    told = f"the body has more than {_MOST_BYTES:,} bytes: read it in pieces"
                    raise ClientPayloadError(told)
        except BaseException:
            self.close()
            raise
        return b"".join(pieces)

    async def json(
        self,
        *,
        encoding: str | None = None,
        loads: JSONDecoder = json.loads,
        content_type: str | None = None,
    ) -> Any:
        """The body's JSON, whatever the answer's content type is unless one is demanded.

        aiohttp demands `application/json`, but what was done was done.
        """
        return await super().json(encoding=encoding, loads=loads, content_type=content_type)

    def raise_for_status(self) -> None:
        """Return for a status below 400 that does not send the request elsewhere.

        Raises:
            RetryAfter: 429 or 503 with a `Retry-After` header: nothing was done.
            TransientError: 401 or 429: nothing was done. A credential may just be rotated.
            PermanentError: another status that refuses the request, or has it made elsewhere (307,
                308): nothing was done.
            aiohttp.ClientResponseError: any other, such as 301, 409 or 500: something may have been
                done. The same for all, if an earlier request of the effect may have done something.

        No message has more of the URL than its origin: path and query may be secret.
        """
        is_alone = self.is_alone is None or self.is_alone()
        refusal = self._refusal() if is_alone and not self.history else None
        if refusal is not None:
            self.release()
            raise proof(refusal)
        if self.status in _ELSEWHERE:
            self.release()
            raise self._unclear(f"{self.reason}: the redirect is not followed")
        if not self.ok:
            self.release()
            raise self._unclear(self.reason or "")

    def _unclear(self, told: str) -> ClientResponseError:
        asked = self.request_info
        shown = RequestInfo(asked.url, asked.method, asked.headers, asked.real_url.origin())
        return ClientResponseError(
            shown, self.history, status=self.status, message=told, headers=self.headers
        )

    def _refusal(self) -> JobError | None:
        told = f"{self.method} {self.url.origin()} answered {self.status} {self.reason}"
        asked = self.headers.get("Retry-After"), self.headers.get("Date")
        seconds = retry_after_seconds(*asked)
        if self.status in (429, 503) and seconds is not None:
            return RetryAfter(seconds, told)
        if self.status in (401, 429):
            return TransientError(told)
        if self.status in _NOT_HERE:
            told = f"{told}: the redirect is not followed, so give the place to which it leads"
            return PermanentError(told)
        return PermanentError(told) if self.status in _REFUSED else None

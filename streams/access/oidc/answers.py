"""Reads what an issuer answers: JSON within bounds of time and size, never behind a redirect."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

from streams.errors import IssuerUnavailable

WITHIN_SECONDS = 5.0
"""How long an issuer may take for one answer."""

MOST_BYTES = 256 * 1024
"""How long an answer may be; a longer one is not read to its end."""

_CALLS_AT_ONCE = 16
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "Tidegate"}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that was read whole; `body` is a JSON object, or empty if it was none."""

    status: int
    body: Json


class Calls:
    """Calls issuers, a bounded number at once; belongs to one event loop."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._turns = asyncio.Semaphore(_CALLS_AT_ONCE)

    async def get(self, url: str) -> Json:
        """Return the JSON object at a URL.

        Raises:
            IssuerUnavailable: it did not answer in time, or not with a JSON object.
        """
        found = await self._call("GET", url)
        if found.status != 200:
            raise IssuerUnavailable(f"{_shown(url)} answers {found.status}")
        return found.body

    async def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        """Send a form; return the answer, whatever its status is.

        Raises:
            IssuerUnavailable: it did not answer in time, or its answer is too long.
        """
        return await self._call("POST", url, data=dict(form), headers=dict(headers))

    async def _call(self, method: str, url: str, **given: Any) -> Answer:
        try:
            async with asyncio.timeout(WITHIN_SECONDS), self._turns:
                return await self._exchange(method, url, **given)
        except TimeoutError:
            late = f"{_shown(url)} did not answer within {WITHIN_SECONDS:g} s"
            raise IssuerUnavailable(late) from None
        except (ClientError, OSError, ValueError) as error:
            failed = f"{_shown(url)} cannot be reached ({type(error).__name__})"
            raise IssuerUnavailable(failed) from error

    async def _exchange(self, method: str, url: str, **given: Any) -> Answer:
        async with self._session.request(method, url, allow_redirects=False, **given) as answer:
            body = bytearray()
            async for piece in answer.content.iter_any():
                body += piece
                if len(body) > MOST_BYTES:
                    answer.close()
                    raise IssuerUnavailable(f"{_shown(url)} answers more than {MOST_BYTES} bytes")
            found = _object(bytes(body))
        if answer.status == 200 and not found:
            raise IssuerUnavailable(f"{_shown(url)} answers no JSON object")
        return Answer(answer.status, found)


def session_for_issuers(
    trust: ssl.SSLContext | None = None, proxy: str | None = None
) -> ClientSession:
    """Return a session that keeps no cookies and unpacks nothing.

    `trust` replaces the system's certificate authorities; `proxy` is a forward proxy's URL.
    """
    return ClientSession(
        connector=TCPConnector(ssl=True if trust is None else trust),
        proxy=proxy,
        headers=_HEADERS,
        cookie_jar=DummyCookieJar(),
        timeout=ClientTimeout(total=None),
        auto_decompress=False,
        trust_env=False,
    )


def _object(body: bytes) -> Json:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _shown(url: str) -> str:
    """Return a URL for messages, without a query, which may contain a credential."""
    return url.partition("?")[0]

"""Looks at the operator's probe and metrics, which need no token."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from aiohttp import ClientError, ClientSession, ClientTimeout, StreamReader

from streams.doctor.looking import ANSWER_SECONDS
from streams.errors import TidegateError

_MOST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class OperatorSeen:
    """The answers of `/readyz` (its status and text) and `/metrics`."""

    status: int
    ready: str
    metrics: str


def read_operator(url: str) -> OperatorSeen:
    """Ask the operator at a URL, which may have a login in it.

    Raises:
        TidegateError: nothing answers there.
    """
    try:
        return asyncio.run(_ask(url.rstrip("/")))
    except (ClientError, TimeoutError, ValueError) as error:
        # The text of an error may repeat the URL with its login.
        raise TidegateError(f"nothing answers there ({type(error).__name__})") from error


async def _ask(url: str) -> OperatorSeen:
    async with ClientSession(timeout=ClientTimeout(total=ANSWER_SECONDS)) as session:
        answers = []
        for path in ("/readyz", "/metrics"):
            async with session.get(url + path, allow_redirects=False) as answer:
                answers.append((answer.status, await _text(answer.content)))
    (status, ready), (_, metrics) = answers
    return OperatorSeen(status, ready, metrics)


async def _text(content: StreamReader) -> str:
    """All of it, to `_MOST_BYTES` at most; one `read` returns only what has arrived."""
    body = bytearray()
    while len(body) < _MOST_BYTES and (piece := await content.read(_MOST_BYTES - len(body))):
        body += piece
    return body.decode(errors="replace")

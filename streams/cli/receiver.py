"""A receiver of outgoing webhooks for a developer's machine: it verifies, counts and answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from aiohttp import web

from ingress.schemes import verify
from streams.errors import SignatureError
from streams.http.moments import written

_SCHEME = "standard-webhooks"
_LARGEST_BODY = 64 * 1024 * 1024
_ACCEPTED, _UNVERIFIED = 204, 401


@dataclass(frozen=True, slots=True)
class Conduct:
    """How a receiver answers: after `delay` seconds, and with the status `fail` if there is one.

    With `times`, only the first requests of each message fail, so many.
    """

    fail: int | None = None
    times: int | None = None
    delay: float = 0.0

    def status(self, seen: int) -> int:
        """The answer to the request that is the `seen`th of its message."""
        fails = self.fail is not None and (self.times is None or seen <= self.times)
        return self.fail if fails and self.fail is not None else _ACCEPTED


@dataclass(frozen=True, slots=True)
class Received:
    """One request; `problem` is why its signature does not hold, None if it holds."""

    at: datetime
    type: str | None
    message_id: str | None
    seen: int
    problem: str | None
    answered: int
    body: bytes

    def json(self) -> dict[str, Any]:
        """The request as one JSON object, with its body as text."""
        return {
            "at": written(self.at),
            "type": self.type,
            "message_id": self.message_id,
            "seen": self.seen,
            "verified": self.problem is None,
            "problem": self.problem,
            "answered": self.answered,
            "body": self.body.decode(errors="replace"),
        }


class Receiver:
    """An endpoint with one secret; it tells of each request before it answers."""

    def __init__(self, secret: str, conduct: Conduct, tell: Callable[[Received], None]) -> None:
        self._secret = secret.encode()
        self._conduct = conduct
        self._tell = tell
        self._seen: Counter[str | None] = Counter()

    def application(self) -> web.Application:
        """The aiohttp application; it takes a POST to any path."""
        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_post("/{path:.*}", self._receive)
        return app

    async def _receive(self, request: web.Request) -> web.Response:
        body, at = await request.read(), datetime.now(UTC)
        message_id = request.headers.get("webhook-id")
        problem = self._problem(request, body)
        seen = self._seen[message_id] = self._seen[message_id] + 1
        status = _UNVERIFIED if problem is not None else self._conduct.status(seen)
        await asyncio.sleep(self._conduct.delay)
        self._tell(Received(at, _type(body), message_id, seen, problem, status, body))
        return web.Response(status=status)

    def _problem(self, request: web.Request, body: bytes) -> str | None:
        try:
            verify(_SCHEME, (self._secret,), request.headers, body)
        except SignatureError as error:
            return str(error)
        return None


def _type(body: bytes) -> str | None:
    """The type in a CloudEvents document; a raw or mapped body may have none."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    named = document.get("type") if isinstance(document, dict) else None
    return named if isinstance(named, str) else None

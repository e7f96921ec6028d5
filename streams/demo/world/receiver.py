"""The customers' receiver of outgoing webhooks: it verifies, answers, fails, hangs and restarts.

It verifies signatures with code of its own, as Standard Webhooks describes them:
https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from aiohttp import web

from streams.demo.world.hold import Hold, kept
from streams.demo.world.subscribers import HANG_SECONDS, Place, Subscriber
from streams.probe_routes import served

_HOST = "127.0.0.1"
_TOLERANCE_SECONDS = 300
_HANGING = frozenset({2, 5, 8})
"""Three messages at most: the endpoint's circuit opens at the fifth failure in a row."""
_EVERY_FAILED = 3


@dataclass(frozen=True, slots=True)
class Hook:
    """One request as the receiver saw it; `at` in seconds since the epoch.

    `status` is its answer; None if it was not answered before its sender gave up or was killed.
    """

    tenant_id: str
    endpoint_id: str
    message_id: str
    verified: bool
    text: str
    at: float
    status: int | None = None

    @property
    def place(self) -> Place:
        return self.tenant_id, self.endpoint_id, self.message_id

    @property
    def taken(self) -> bool:
        """Whether the receiver verified the message and answered that it has it."""
        return self.verified and self.status is not None and 200 <= self.status < 300


class Receiver:
    """Takes requests for `/{tenant}/{endpoint}`; `start` after `stop` binds the same port again."""

    def __init__(self, subscribers: Iterable[Subscriber]) -> None:
        self._subscribers = {each.place: each for each in subscribers}
        self._hooks: list[Hook] = []
        self._holds: list[Hold[Hook]] = []
        self._requests: Counter[Place] = Counter()
        self._messages: Counter[tuple[str, str]] = Counter()
        self._serving = AsyncExitStack()
        self._port = 0

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """Every request in the order in which they came."""
        return tuple(self._hooks)

    def url(self, endpoint: tuple[str, str]) -> str:
        """Where the endpoint's messages go."""
        return f"http://{_HOST}:{self._port}/{'/'.join(endpoint)}"

    def hold(self, endpoint: tuple[str, str]) -> Hold[Hook]:
        """Keep the next request to an endpoint without an answer."""
        hold = Hold[Hook](lambda hook: hook.place[:2] == endpoint)
        self._holds.append(hold)
        return hold

    async def start(self) -> None:
        """Serve on a free port of 127.0.0.1, or on the one that it had before."""
        app = web.Application()
        app.router.add_post("/{tenant}/{endpoint}", self._receive)
        server = served(app, _HOST, self._port, shutdown_timeout=0.1)
        self._port = await self._serving.enter_async_context(server)

    async def stop(self) -> None:
        """Stop listening and break off what is under way."""
        for hold in self._holds:
            hold.release()
        await self._serving.aclose()

    async def _receive(self, request: web.Request) -> web.Response:
        endpoint = request.match_info["tenant"], request.match_info["endpoint"]
        subscriber, body = self._subscribers[endpoint], await request.read()
        message_id = request.headers.get("webhook-id", "")
        verified = signed_under(subscriber.secret, request, body)
        hook = Hook(*endpoint, message_id, verified, body.decode(errors="replace"), time.time())
        index = len(self._hooks)
        self._hooks.append(hook)
        status = await self._answer(subscriber, hook)
        if status is not None:
            self._hooks[index] = replace(hook, status=status)
        return web.Response(status=status or 200)  # nobody reads the answer after a hang

    async def _answer(self, subscriber: Subscriber, hook: Hook) -> int | None:
        """The status to answer with; None after a hang."""
        self._requests[hook.place] += 1
        first = self._requests[hook.place] == 1
        self._messages[subscriber.place] += first
        number = self._messages[subscriber.place]
        if not hook.verified:
            return 401
        if await kept(self._holds, hook):
            return None
        if subscriber.conduct == "hangs" and first and number in _HANGING:
            await asyncio.sleep(HANG_SECONDS)
            return None
        if subscriber.conduct == "fails" and first and number % _EVERY_FAILED == 0:
            return 503
        return 400 if subscriber.conduct == "refuses" else 204


def signed_under(secret: str, request: web.Request, body: bytes) -> bool:
    """Whether one of the request's `v1` signatures holds under a `whsec_` secret, and is fresh."""
    id_, stamp = (request.headers.get(f"webhook-{name}", "") for name in ("id", "timestamp"))
    if not stamp.isdecimal() or abs(time.time() - int(stamp)) > _TOLERANCE_SECONDS:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.digest(key, f"{id_}.{stamp}.".encode() + body, "sha256")
    wanted = f"v1,{base64.b64encode(digest).decode()}"
    given = request.headers.get("webhook-signature", "").split()
    return bool(id_) and any(hmac.compare_digest(wanted, each) for each in given)

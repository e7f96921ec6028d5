"""The vendor: delivers signed events over HTTP, and repeats until it is answered 2xx.

It signs as Zendesk does: base64 of HMAC-SHA256 over timestamp and body (developer.zendesk.com,
"Verifying webhook authenticity").
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import itertools
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import aiohttp
import orjson

from streams.demo.world.scenario import SOURCE, Scenario, Ticket

_BACKOFF = (0.1, 0.2, 0.4, 0.8, 1.0)
_GIVE_UP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One 2xx answer to one delivery; times in seconds since the epoch."""

    ticket: Ticket
    status: int
    event_id: str | None
    job_id: str | None
    sent_at: float
    answered_at: float


@dataclass(frozen=True, slots=True)
class Broken:
    """A request whose connection broke after it was made: nobody knows whether it was accepted."""

    ingress: str
    sent_at: float


class Vendor:
    """Delivers to all ingress processes in turn, and remembers the answers."""

    def __init__(
        self, scenario: Scenario, ingress: Sequence[str], concurrency: int, patience: float = 15.0
    ) -> None:
        self._secrets = scenario.secrets
        self._turn = itertools.cycle(ingress)
        self._slots = asyncio.Semaphore(concurrency)
        self._timeout = aiohttp.ClientTimeout(total=patience)
        self._session: aiohttp.ClientSession | None = None
        self.answers: list[Answer] = []
        self.broken: list[Broken] = []
        self.refused: list[str] = []
        self.under_way: Counter[str] = Counter()

    async def open(self) -> None:
        connector = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(connector=connector, timeout=self._timeout)

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    async def deliver(self, volleys: Iterable[tuple[Ticket, ...]]) -> None:
        """Send volleys with bounded concurrency, and the deliveries of one at the same moment."""
        async with asyncio.TaskGroup() as group:
            for volley in volleys:
                await self._slots.acquire()
                group.create_task(self._volley(volley))

    async def knock(self, ingress: str, tenant_id: str) -> int | None:
        """Status for a signed body that is no JSON: 400 if the source is known; None: no answer.

        It proves that an ingress is up and knows the source, and makes no event.
        """
        try:
            status, _ = await self._post(ingress, tenant_id, b"not json")
        except (aiohttp.ClientError, TimeoutError):
            return None
        return status

    async def _volley(self, volley: tuple[Ticket, ...]) -> None:
        try:
            await asyncio.gather(*(self._until_taken(ticket) for ticket in volley))
        finally:
            self._slots.release()

    async def _until_taken(self, ticket: Ticket) -> None:
        body, deadline = ticket.body(), time.monotonic() + _GIVE_UP_SECONDS
        for pause in itertools.chain(_BACKOFF, itertools.repeat(_BACKOFF[-1])):
            status = await self._attempt(ticket, body)
            if status is not None and 200 <= status < 300:
                return
            if time.monotonic() > deadline:
                self.refused.append(
                    f"{ticket.tenant_id}/{ticket.external_id}: no 2xx within "
                    f"{_GIVE_UP_SECONDS:g} s (last answer: {status or 'broken connection'})"
                )
                return
            await asyncio.sleep(pause)

    async def _attempt(self, ticket: Ticket, body: bytes) -> int | None:
        ingress, sent_at = next(self._turn), time.time()
        self.under_way[ingress] += 1
        try:
            status, answer = await self._post(ingress, ticket.tenant_id, body)
        except aiohttp.ClientConnectorError:
            return None
        except (aiohttp.ClientError, TimeoutError):
            self.broken.append(Broken(ingress, sent_at))
            return None
        finally:
            self.under_way[ingress] -= 1
        if 200 <= status < 300:
            self._remember(ticket, status, answer, sent_at)
        return status

    def _remember(self, ticket: Ticket, status: int, body: bytes, sent_at: float) -> None:
        told = orjson.loads(body)
        self.answers.append(
            Answer(ticket, status, told.get("event_id"), told.get("job_id"), sent_at, time.time())
        )

    async def _post(self, ingress: str, tenant_id: str, body: bytes) -> tuple[int, bytes]:
        assert self._session is not None  # noqa: S101 - `open` was called
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        headers = {
            "Content-Type": "application/json",
            "X-Zendesk-Webhook-Signature": sign(self._secrets[tenant_id], stamp, body),
            "X-Zendesk-Webhook-Signature-Timestamp": stamp,
            "X-Zendesk-Webhook-Invocation-Id": uuid.uuid4().hex,
        }
        url = f"{ingress}/v1/hooks/{tenant_id}/{SOURCE}"
        async with self._session.post(url, data=body, headers=headers) as response:
            return response.status, await response.read()


def sign(secret: bytes, timestamp: str, body: bytes) -> str:
    """The value of `X-Zendesk-Webhook-Signature`."""
    return base64.b64encode(hmac.digest(secret, timestamp.encode() + body, "sha256")).decode()

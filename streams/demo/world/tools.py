"""The outside world as a handler sees it: a model that drafts, a mail service, a payment service.

All are one HTTP server, the recorder. Each request names its caller, so that the recorder can
distinguish runs and processes; the product does not need that.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from typing import Any, Self

import aiohttp

URL_VARIABLE = "DEMO_RECORDER_URL"


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller: one run of one job, or one delivery that the naive handler is working on."""

    tenant_id: str
    job_id: str
    run_id: str
    attempt: int
    pid: int


class Tools:
    """One run's connection to the recorder; an async context manager."""

    def __init__(self, caller: Caller, url: str | None = None) -> None:
        self._caller = caller
        self._session = aiohttp.ClientSession(url or os.environ[URL_VARIABLE])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def started(self, at: float) -> None:
        """Report the handler's first line, passed at `at` (seconds since the epoch)."""
        await self._post("/started", {"at": at})

    async def draft(self, ticket: str, text: str) -> str:
        """Draft an answer to the customer's text; this is no side effect."""
        answer = await self._post("/draft", {"ticket": ticket, "text": text})
        return str(answer["draft"])

    async def send_email(
        self, *, ticket: str, to: str, text: str, idempotency_key: str | None
    ) -> dict[str, Any]:
        """Send an e-mail; the service honours idempotency keys."""
        return await self._post(
            "/email", {"ticket": ticket, "to": to, "text": text}, idempotency_key
        )

    async def refund(
        self, *, ticket: str, reason: str, idempotency_key: str | None
    ) -> dict[str, Any]:
        """Refund an order; the service ignores idempotency keys."""
        return await self._post("/refund", {"ticket": ticket, "text": reason}, idempotency_key)

    async def _post(
        self, path: str, body: dict[str, Any], key: str | None = None
    ) -> dict[str, Any]:
        headers = {} if key is None else {"Idempotency-Key": key}
        sent = {**asdict(self._caller), "sent_at": time.time(), **body}
        async with self._session.post(path, json=sent, headers=headers) as response:
            response.raise_for_status()
            answer: dict[str, Any] = await response.json()
            return answer

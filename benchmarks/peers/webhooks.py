"""The webhooks that every peer gets, rendered before the clock runs."""

from __future__ import annotations

import hmac
import os
from collections.abc import Sequence
from dataclasses import dataclass

import orjson
from webhook_requests import SECRET, TENANTS, request

SIZE = 1024
"""Bytes of a body."""


@dataclass(frozen=True)
class Webhook:
    """One event, as the bytes of its whole HTTP request."""

    event_id: str
    type: str
    tenant: str
    body: bytes

    @property
    def signature(self) -> str:
        return hmac.digest(SECRET, self.body, "sha256").hex()

    def rendered(self) -> bytes:
        return request(self.tenant, "bench", {"X-Signature": self.signature}, self.body)


def made(type_: str, count: int, jobs: int = 0, tenants: Sequence[str] = TENANTS) -> list[Webhook]:
    """Events of a type, each about a subject of its own, over all tenants in turn."""
    run = os.urandom(4).hex()
    return [
        _made(type_, f"{run}-{number}", tenants[number % len(tenants)], jobs)
        for number in range(count)
    ]


def answers(asked: list[Webhook]) -> list[Webhook]:
    """For each event that waits one of the same subject, which wakes it."""
    return [_answer(each) for each in asked]


def _made(type_: str, name: str, tenant: str, jobs: int) -> Webhook:
    return _webhook(type_, f"evt-{name}", tenant, {"id": f"case-{name}", "jobs": jobs})


def _answer(asked: Webhook) -> Webhook:
    data = orjson.loads(asked.body)["data"]
    return _webhook("wait.answered", f"{asked.event_id}-answered", asked.tenant, data)


def _webhook(type_: str, event_id: str, tenant: str, data: dict[str, object]) -> Webhook:
    event = {"type": type_, "id": event_id, "data": data}
    padding = SIZE - len(orjson.dumps({**event, "text": ""}))
    return Webhook(event_id, type_, tenant, orjson.dumps({**event, "text": "x" * padding}))

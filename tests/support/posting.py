"""Requests to receivers on this machine, and a name server of the test's choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_network
from typing import Any

from streams.delivery.egress.policy import EgressPolicy
from streams.delivery.egress.post import Post

BODY = b'{"id":"m1"}'


def to(
    url: str,
    *,
    timeout: float = 5.0,
    headers: Mapping[str, str] | None = None,
    tenant_id: str = "acme",
) -> Post:
    """A small JSON body to a URL."""
    named = {"Content-Type": "application/json", **(headers or {})}
    return Post(tenant_id, url, tuple(named.items()), BODY, timeout)


def loopback(**settings: Any) -> EgressPolicy:
    """Loopback and http are allowed, as in development."""
    return EgressPolicy(allowed_networks=(ip_network("127.0.0.0/8"),), allow_http=True, **settings)


class NameServer:
    """Gives one answer after the other, the last one for ever; an OSError is raised."""

    def __init__(self, *answers: Sequence[str] | OSError) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, name: str) -> Sequence[str]:
        self.asked.append(name)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, OSError):
            raise answer
        return answer

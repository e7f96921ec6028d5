"""The customers' endpoints in the demo: what each is sent, and how it behaves."""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from streams.serde.delivery_states import DEAD, DELIVERED, PARKED

Conduct = Literal["answers", "fails", "hangs", "refuses"]
"""`fails`: 503 to the first request of every third message. `hangs`: no answer to the first request
of three messages. `refuses`: 400 to every request."""

Place = tuple[str, str, str]
"""Tenant, endpoint and message: what has one row in the queue of outgoing deliveries."""

RETRY_SECONDS = (0.5, 0.5, 1.0, 1.0, 2.0, 2.0, 5.0, 5.0)
"""Short waits, so that retries end within the demo's time."""

HANG_SECONDS = 3.0
_TIMEOUT_OF_HANGING = 1.5

STRUCK_ENDPOINT = ("acme", "everything")
"""The endpoint whose attempt is under way when the delivery stage is killed."""

SWITCHED_OFF = ("initech", "switched-off")
"""The endpoint that is disabled in the middle of the run."""

RESTARTED = ("initech", "restarted")
"""The endpoint whose receiver is stopped and started again in the middle of the run.

It is sent one message at a time: five failures in a row would open its circuit for half a minute.
"""


def _new_secret() -> str:
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One endpoint; `ends` are the statuses in which its deliveries may end."""

    tenant_id: str
    endpoint_id: str
    events: tuple[str, ...]
    conduct: Conduct = "answers"
    ordering: str = "parallel"
    enabled: bool = True
    ends: frozenset[str] = frozenset({DELIVERED})
    secret: str = field(default_factory=_new_secret, repr=False)

    @property
    def place(self) -> tuple[str, str]:
        return self.tenant_id, self.endpoint_id

    def wants(self, type_: str) -> bool:
        """Whether messages of a type are for this endpoint."""
        return any(fnmatchcase(type_, glob) for glob in self.events)

    def body(self, url: str, *, enabled: bool) -> dict[str, Any]:
        """The body of the PUT that sets the endpoint; callbacks have no `url` and no `events`."""
        retry = RETRY_SECONDS[:1] if self.conduct == "refuses" else RETRY_SECONDS
        body: dict[str, Any] = {"secret": self.secret, "retry": list(retry), "enabled": enabled}
        if self.events:
            body |= {"url": url, "events": list(self.events), "ordering": self.ordering}
        if self.conduct == "hangs":
            body["timeout_seconds"] = _TIMEOUT_OF_HANGING
        return body


CALLBACKS = ("acme", "callbacks")
"""The endpoint that serves the `callback_url` of the delayed job."""


def subscribers() -> tuple[Subscriber, ...]:
    """Every endpoint of the demo, with new secrets."""
    parked = frozenset({PARKED})
    return (
        Subscriber(*STRUCK_ENDPOINT, ("*",)),
        Subscriber("acme", "disabled", ("ticket.*",), enabled=False, ends=parked),
        Subscriber(
            "acme", "refuses", ("job.dead", "job.failed"), "refuses", ends=frozenset({DEAD})
        ),
        Subscriber(*CALLBACKS, ()),
        Subscriber("globex", "fails", ("ticket.*",), "fails"),
        Subscriber("globex", "hangs", ("job.*",), "hangs"),
        Subscriber(*RESTARTED, ("job.*",), ordering="fifo"),
        Subscriber(*SWITCHED_OFF, ("*",), ends=parked | {DELIVERED}),
    )

"""What was done or refused, and at whose wish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

AuditOutcome = Literal["done", "refused"]
DONE: Final = "done"
REFUSED: Final = "refused"


@dataclass(frozen=True, slots=True)
class Call:
    """The call of the API that sent a command; a command with one is answered by an entry."""

    principal: str
    role: str
    request_id: str


@dataclass(frozen=True, slots=True)
class AuditEntry:
    id: str
    chain: str
    seq: int
    previous: bytes
    hash: bytes
    at: int
    principal: str
    role: str
    tenant_id: str
    verb: str
    target: str
    outcome: AuditOutcome
    reason: str | None = None
    detail: str | None = None
    note: str | None = None
    request_id: str | None = None
    command_id: str | None = None
    before: str | None = None
    after: str | None = None

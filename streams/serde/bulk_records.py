"""The values of bulk acts on the topic `bulk`, one frozen dataclass for each record.

As in `records`, field names and meanings are documented in `schemas/bulk.avsc`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

BulkStatus = Literal["running", "paused", "stopped", "cancelled", "done"]
RUNNING: Final = "running"
PAUSED: Final = "paused"
STOPPED: Final = "stopped"
"""Too many items failed: it goes on once a person resumes it."""
CANCELLED: Final = "cancelled"
DONE: Final = "done"
ENDED: frozenset[str] = frozenset({CANCELLED, DONE})

ItemOutcome = Literal["waiting", "done", "asked", "failed"]
WAITING: Final = "waiting"
ITEM_DONE: Final = "done"
ASKED: Final = "asked"
"""Its command is durable, and nobody has seen its effect in time."""
FAILED: Final = "failed"


@dataclass(frozen=True, slots=True)
class BulkExcluded:
    reason: str
    count: int
    samples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BulkAsked:
    action: str
    filter: str
    params: str
    note: str
    role: str
    tenants: tuple[str, ...] | None
    tenant_id: str | None
    count: int
    excluded: tuple[BulkExcluded, ...]
    positions: dict[str, int]
    ramp: tuple[int, ...]
    stop_at_failures: float | None
    digest: bytes
    plan: bytes | None = None

    @property
    def items_digest(self) -> bytes:
        """What all of its items have, and those of another plan under its id have not."""
        return self.digest if self.plan is None else self.plan


@dataclass(frozen=True, slots=True)
class BulkItem:
    item: str
    number: int
    tenant_id: str
    digest: bytes
    outcome: ItemOutcome = WAITING
    reason: str | None = None
    detail: str | None = None
    made: str | None = None


@dataclass(frozen=True, slots=True)
class BulkPaused:
    paused: bool
    stops: int = 0


@dataclass(frozen=True, slots=True)
class BulkCancelled:
    note: str


@dataclass(frozen=True, slots=True)
class BulkJoined:
    did: str


@dataclass(frozen=True, slots=True)
class BulkProgress:
    status: BulkStatus
    done: int = 0
    asked: int = 0
    failed: int = 0
    forgiven_items: int = 0
    forgiven_failures: int = 0
    started_at: int = 0
    stops: int = 0
    because: str | None = None
    error: str | None = None
    plan: bytes | None = None


BulkBody = BulkAsked | BulkItem | BulkPaused | BulkCancelled | BulkJoined | BulkProgress


@dataclass(frozen=True, slots=True)
class BulkRecord:
    bulk_id: str
    at: int
    by: str
    body: BulkBody

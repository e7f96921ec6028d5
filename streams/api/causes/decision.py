"""What people decided about causes, as records of `tenants`.

A decision of somebody with all tenants is under no tenant, and counts for every tenant's letters.
Anybody else decides about each of their tenants. The newest decision counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import orjson

from streams.serde.records import TenantRecord

State = Literal["open", "resolved", "ignored"]
STATES: tuple[State, ...] = get_args(State)
OPEN: State = "open"
RESOLVED: State = "resolved"
"""A letter that comes afterwards opens the cause again."""
IGNORED: State = "ignored"
"""Until a time; then the cause is open again."""
KIND: Literal["cause"] = "cause"


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision: of whom, when (milliseconds) and why; `until` is the end of an ignored one."""

    cause_id: str
    state: State
    by: str
    note: str
    at: int
    until: int | None = None

    def record(self, tenant_id: str) -> TenantRecord:
        """The record that keeps it; `tenant_id` is empty for all tenants."""
        body = {"state": self.state, "by": self.by, "note": self.note, "until": self.until}
        return TenantRecord(
            tenant_id,
            KIND,
            self.cause_id,
            disabled=False,
            body=orjson.dumps(body).decode(),
            updated_at=self.at,
        )


def decision_in(record: TenantRecord) -> Decision:
    """The decision that a record holds.

    Raises:
        ValueError, LookupError, TypeError: it holds none.
    """
    body = orjson.loads(record.body)
    state, until = body["state"], body["until"]
    if state not in STATES or not (until is None or type(until) is int):
        raise ValueError("the body is no decision about a cause")
    by, note = str(body["by"]), str(body["note"])
    return Decision(record.id, state, by, note, record.updated_at, until)

"""The values that travel on topics, one frozen dataclass for each Avro record.

Field names and meanings are documented in `schemas/*.avsc`; times are integer milliseconds since
the epoch in UTC, JSON travels as text. `tests/unit/serde/test_schemas.py` compares the two. Import
them from here; the modules are for those who look one up.
"""

from __future__ import annotations

from streams.serde.records.commands import (
    Cancel,
    Command,
    CommandBody,
    Move,
    Replay,
    ReplayEvent,
    Reroute,
    Settle,
    Submit,
    Wake,
)
from streams.serde.records.events import (
    Duplicate,
    Envelope,
    EventInfo,
    PayloadRef,
    Quarantined,
    RateReport,
    Rejection,
)
from streams.serde.records.jobs import (
    Attempt,
    DeadLetter,
    Held,
    Job,
    LedgerEntry,
    Progress,
    Schedule,
)
from streams.serde.records.tenants import (
    SigningKey,
    TenantRecord,
)
from streams.serde.records.workers import (
    Checkpoint,
    Claim,
    Declined,
    Ended,
    Handler,
    Heartbeat,
    HeldLease,
    Lease,
    Outcome,
    Reply,
    ReplyKind,
)

__all__ = [
    "Attempt",
    "Cancel",
    "Checkpoint",
    "Claim",
    "Command",
    "CommandBody",
    "DeadLetter",
    "Declined",
    "Duplicate",
    "Ended",
    "Envelope",
    "EventInfo",
    "Handler",
    "Heartbeat",
    "Held",
    "HeldLease",
    "Job",
    "Lease",
    "LedgerEntry",
    "Move",
    "Outcome",
    "PayloadRef",
    "Progress",
    "Quarantined",
    "RateReport",
    "Rejection",
    "Replay",
    "ReplayEvent",
    "Reply",
    "ReplyKind",
    "Reroute",
    "Schedule",
    "Settle",
    "SigningKey",
    "Submit",
    "TenantRecord",
    "Wake",
]

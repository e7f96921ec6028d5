"""The entries of `audit` that stages in memory have written; their chains must be whole."""

from __future__ import annotations

from streams.audit.chain import verify
from streams.runtime.driver import TopologyTestDriver
from streams.serde.codec import AUDIT_ENTRY
from streams.serde.records import AuditEntry, Call

CALL = Call("token:ann", "operator", "req-1")


def entries(driver: TopologyTestDriver) -> list[AuditEntry]:
    """Every entry in order."""
    found = [AUDIT_ENTRY.decode(record.value) for record in driver.output("audit")]
    assert list(verify(found)) == []
    numbers = {entry.chain: entry.seq for entry in reversed(found)}
    assert set(numbers.values()) <= {1}
    return found

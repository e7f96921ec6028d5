"""The entries of the audit that calls write, over a read model and no Kafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streams.api.operator_state import AppState
from streams.api.refused_attempts import RefusedAttempts
from streams.kafka.fenced_write import OutgoingRecord
from streams.serde.records import AuditEntry, TenantRecord
from support.operator_desk import OperatorDesk


def recorded(patch: pytest.MonkeyPatch, clock: Callable[[], float]) -> list[AuditEntry]:
    """Have all desks make entries as the operator does; return those that were written."""
    found = list[AuditEntry]()
    audited, set_tenant = OperatorDesk.audited, OperatorDesk.set_tenant

    def note(entry: AuditEntry | None) -> None:
        if entry is not None:
            found.append(entry)

    async def noted(desk: Any, entry: AuditEntry | None, *records: OutgoingRecord) -> list[int]:
        note(entry)
        return await audited(desk, entry, *records)

    async def set_noted(
        desk: Any,
        key: Any,
        record: TenantRecord | None,
        partition: int | None = None,
        entry: AuditEntry | None = None,
    ) -> int:
        note(entry)
        return await set_tenant(desk, key, record, partition)

    patch.setattr(OperatorDesk, "entry", AppState.entry)
    patch.setattr(OperatorDesk, "refused", AppState.refused)
    patch.setattr(OperatorDesk, "audited", noted)
    patch.setattr(OperatorDesk, "set_tenant", set_noted)
    attempts = RefusedAttempts(clock)
    patch.setattr(OperatorDesk, "refused_attempts", attempts, raising=False)
    return found

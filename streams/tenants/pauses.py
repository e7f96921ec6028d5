"""Pauses of a tenant, type, pool, source, tool or worker, as records of `tenants`.

A tenant's pause stands beside its settings, under the id "". Any other has a record in each
partition, under no tenant, because the jobs that it stops are in all of them. A resume deletes the
records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import orjson

from streams.limits.paused import SCOPES, Scope
from streams.serde.records import TenantRecord

KIND: Literal["pause"] = "pause"
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Pause:
    """One pause: its scope and value, its author `by`, the reason, and the time `at` (ms)."""

    scope: Scope
    value: str
    by: str
    reason: str
    at: int

    def records(self, partitions: int) -> list[TenantRecord]:
        """The records that pause it."""
        body = orjson.dumps({"by": self.by, "reason": self.reason}).decode()
        return [
            TenantRecord(tenant_id, KIND, id_, disabled=False, body=body, updated_at=self.at)
            for tenant_id, _, id_ in keys_of(self.scope, self.value, partitions)
        ]


def keys_of(scope: Scope, value: str, partitions: int) -> list[Key]:
    """The keys of the records that pause something."""
    if scope == "tenant":
        return [(value, KIND, "")]
    return [("", KIND, f"{partition}/{scope}/{value}") for partition in range(partitions)]


def partition_in(key: Key) -> int | None:
    """The partition that the key of a pause names; None for a tenant's pause."""
    return None if key[0] else int(key[2].partition("/")[0])


def paused_by(tenant_id: str, id_: str) -> tuple[Scope, str] | None:
    """What the record of kind `pause` with this tenant and id pauses; None if it is none."""
    if tenant_id:
        return None if id_ else ("tenant", tenant_id)
    _, _, named = id_.partition("/")
    scope, slash, value = named.partition("/")
    is_known = slash and scope in SCOPES and scope != "tenant"
    return (cast(Scope, scope), value) if is_known else None


def pause_in(record: TenantRecord) -> Pause:
    """The pause that a record holds.

    Raises:
        ValueError, LookupError, TypeError: it holds none.
    """
    named = paused_by(record.tenant_id, record.id)
    if named is None:
        raise ValueError("the key names nothing that can be paused")
    body = orjson.loads(record.body)
    return Pause(*named, str(body["by"]), str(body["reason"]), record.updated_at)

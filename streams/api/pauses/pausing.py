"""Pauses and resumes tenants, types, pools, sources, tools and workers, on `tenants`."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from functools import partial

import orjson
import structlog

from streams.api.job_types.known import doubt_about
from streams.api.operator_state import AppState, tenant_record
from streams.api.pauses import paused as pauses
from streams.api.pauses.pause_request import PauseRequest, ResumeRequest
from streams.api.pauses.paused import pause_json
from streams.api.refusal import Refusal, invalid
from streams.api.remedy import get
from streams.api.rights import author, require_every_tenant
from streams.api.rows.json_values import Json
from streams.api.tenants import table as tenants
from streams.api.tenants.guards import known_tenant, refuse_erased
from streams.api.workers.running import names_running
from streams.process.wall_clock import wall_ms
from streams.serde.records import AuditEntry, TenantRecord
from streams.tenants.pauses import Key, Pause, keys_of, partition_in

log = structlog.get_logger(__name__)


async def pause(state: AppState, wanted: PauseRequest) -> Json:
    """Start nothing more of a tenant, type, pool, source or tool, or at a worker.

    A second pause has a new reason. `warning` says that no job of the type is known, or that none
    runs at the worker, or is null.

    Raises:
        Refusal: 404 or 409, the tenant is unknown or erased; 422, the pool is not declared, or the
            worker is named with its boot; 503, the read model is late.
    """
    by = author(state, wanted.by)
    _require_all_of_it(state, wanted)
    warning = await _doubt(state, wanted)
    async with state.tenant_writes:
        before = await _paused(state, wanted)
        at = max(wall_ms(), 0 if before is None else before.at + 1)
        made = Pause(wanted.scope, wanted.value, by, wanted.reason, at)
        records = made.records(state.topology.partitions)
        after: dict[Key, TenantRecord | None] = {
            (each.tenant_id, each.kind, each.id): each for each in records
        }
        await _write(state, after, _entry(state, wanted, before, made, wanted.reason))
    log.warning("paused", scope=made.scope, value=made.value, by=made.by, reason=made.reason)
    return {**pause_json(made), "warning": warning}


async def resume(state: AppState, wanted: ResumeRequest) -> Json:
    """Let what was paused start again, also if the topology no longer declares it.

    Raises:
        Refusal: 409, it is not paused; 503, the read model is late.
    """
    by = author(state, wanted.by)
    _require_all_of_it(state, wanted)
    async with state.tenant_writes:
        before = await _paused(state, wanted)
        if before is None:
            what = f"{wanted.scope} {wanted.value!r} is not paused"
            all_ = get("limits")
            raise Refusal(409, "not-paused", f"{what}: {all_} lists all pauses", remedy=all_)
        keys = keys_of(wanted.scope, wanted.value, state.topology.partitions)
        await _write(state, dict.fromkeys(keys), _entry(state, wanted, before, None))
    log.warning("resumed", scope=wanted.scope, value=wanted.value, by=by)
    return {**pause_json(before), "resumed_by": by}


def _require_all_of_it(state: AppState, wanted: ResumeRequest) -> None:
    """Check that the caller may pause what counts all tenants together."""
    if wanted.scope != "tenant":
        require_every_tenant(state.principal)


async def _doubt(state: AppState, wanted: PauseRequest) -> str | None:
    """Return a warning about what shall be paused.

    Raises:
        Refusal: 404 or 409, the tenant is unknown or erased; 422, the pool is not declared, or the
            worker is named with its boot.
    """
    if wanted.scope == "tenant":
        await known_tenant(state, wanted.value)
        await refuse_erased(state, wanted.value)
    elif wanted.scope == "pool" and wanted.value not in state.topology.pools:
        raise invalid("value", f"is no pool: the topology has {', '.join(state.topology.pools)}")
    elif wanted.scope == "job_type":
        return await state.query(lambda db: doubt_about(db, state.topology, wanted.value))
    elif wanted.scope == "worker":
        return await _doubt_about_worker(state, wanted.value)
    return None


async def _doubt_about_worker(state: AppState, name: str) -> str | None:
    if "/" in name:
        raise invalid("value", "is no name of a worker: leave out its boot, from the / on")
    if name in await state.query(names_running):
        return None
    all_ = get("workers")
    return (
        f"no job runs at a worker {name!r} now. If it is connected, all is well: {all_} lists "
        "workers only while jobs run there, or while they are drained"
    )


async def _paused(state: AppState, wanted: ResumeRequest) -> Pause | None:
    found = await state.query(pauses.all_pauses)
    return found.get((wanted.scope, wanted.value))


def _entry(
    state: AppState,
    wanted: ResumeRequest,
    before: Pause | None,
    after: Pause | None,
    note: str | None = None,
) -> AuditEntry | None:
    shown = [None if p is None else orjson.dumps(pause_json(p)).decode() for p in (before, after)]
    tenant_id = wanted.value if wanted.scope == "tenant" else ""
    target = f"{wanted.scope} {wanted.value}"
    return state.entry(target, tenant_id, before=shown[0], after=shown[1], note=note)


async def _write(
    state: AppState, records: Mapping[Key, TenantRecord | None], entry: AuditEntry | None
) -> None:
    """Write or delete records, and return once the read model shows all of that.

    Raises:
        Refusal: 503, the read model is late: send the call again.
        KafkaUnavailable: one was not acknowledged: send the call again.
    """
    sent = (tenant_record(key, each, _home(state, key)) for key, each in records.items())
    await state.audited(entry, *sent)
    for key, record in records.items():
        await state.wait_until(("tenants", key), partial(_is_shown, key=key, record=record))


def _home(state: AppState, key: Key) -> int:
    given = partition_in(key)
    return state.home(key[0]) if given is None else given


def _is_shown(connection: sqlite3.Connection, key: Key, record: TenantRecord | None) -> bool:
    found = tenants.setting(connection, *key)
    if found is None or record is None:
        return found is record
    return found.updated_at >= record.updated_at

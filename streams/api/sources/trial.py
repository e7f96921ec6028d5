"""Sends a source a sample of its vendor, as if it were delivered, and tells what came of it.

The operator signs under the source's own secret, and takes the delivery in by the ingress' code.
Whether the vendor has the same secret, and reaches the ingress, a test by the operator cannot tell.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from uuid import UUID

import orjson

from ingress.samples import names, sample
from ingress.schemes import SignedRequest
from ingress.schemes.request import with_headers
from streams.api.backlog.admission import open_backlog
from streams.api.events import table as events
from streams.api.operator_state import AppState
from streams.api.quarantine import table as quarantine
from streams.api.refusal import Refusal, invalid
from streams.api.rows.json_values import Json
from streams.api.rows.table import RowKey
from streams.api.sources.changes import known_source
from streams.api.sources.signing import require_private, signed_for
from streams.api.sources.trial_request import SourceTrialRequest
from streams.api.tenants.guards import enabled_tenant
from streams.errors import ConfigError, Erased
from streams.event_admission import Taken
from streams.process.wall_clock import wall_ms
from streams.serde import ids
from streams.serde.records import TenantRecord
from streams.tenants.settings import source_settings


async def send_test(
    state: AppState, tenant_id: str, name: str, wanted: SourceTrialRequest, traceparent: str
) -> Json:
    """Return what became of a sample of the source's vendor, and the event that it is.

    Raises:
        Refusal: 403, the tenant is disabled; 404, there is no such source; 409, the operator cannot
            sign for it, or the tenant was erased; 422, there is no such sample.
    """
    await enabled_tenant(state, tenant_id)
    record = await known_source(state, tenant_id, name)
    event_id = ids.tested_event_id(state.new_command_id())
    chosen, delivery = _delivery(state, record, wanted.sample, event_id)
    delivery = with_headers(
        delivery, {"X-Request-Id": state.request_id, "traceparent": traceparent}
    )
    backlog = await open_backlog(state)
    try:
        taken = await state.admission.deliver(record, delivery, event_id, backlog.full)
    except Erased as error:
        raise Refusal(409, "tenant-erased", str(error)) from None
    what = {"event": taken.event_id, "outcome": taken.outcome, "sample": chosen}
    await state.audited(state.entry(name, tenant_id, after=orjson.dumps(what).decode()))
    return _answer(chosen, taken, await _is_shown(state, record, delivery.body, taken))


def _delivery(
    state: AppState, record: TenantRecord, name: str | None, event_id: str
) -> tuple[str, SignedRequest]:
    """Return a sample's name, and the sample as the source's vendor would deliver it.

    Raises:
        Refusal: 409, the operator cannot sign for the source; 422, there is no such sample.
    """
    now, scheme = wall_ms() / 1000, source_settings(record).scheme
    require_private(scheme)  # one that is not known has no samples
    try:
        made = sample(scheme, name, now, UUID(event_id.removeprefix("evt_")))
    except ConfigError as error:
        raise invalid("sample", str(error)) from None
    unsigned = SignedRequest(made.headers, made.body, _url(record), "POST", now)
    return name or names(scheme)[0], signed_for(state, record, unsigned)


def _url(record: TenantRecord) -> str:
    """Return what stands for the ingress' URL, which some vendors sign."""
    return f"https://ingress.invalid/v1/hooks/{record.tenant_id}/{record.id}"


async def _is_shown(state: AppState, record: TenantRecord, body: bytes, taken: Taken) -> bool:
    """Return whether the read model shows what became of a test, after a wait if need be."""
    if taken.event_id is None:
        return False
    event_id, digest = taken.event_id, hashlib.sha256(body).hexdigest()
    row: RowKey = ("events", (event_id,))
    find: Callable[[sqlite3.Connection, str], object | None] = events.event
    if taken.outcome == "quarantined":
        row = ("quarantine", (record.tenant_id, record.id, digest))
        find = quarantine.quarantined
    return await state.wait_for(row, lambda db: find(db, event_id)) is not None


def _answer(sample_: str, taken: Taken, is_shown: bool) -> Json:
    return {
        "outcome": taken.outcome,
        "sample": sample_,
        "event_type": taken.event_type,
        "event_id": taken.event_id,
        "job_id": taken.job_id,
        "routed": taken.routed,
        "reason": taken.reason,
        "cause": taken.cause,
        "detail": taken.detail,
        "shown": is_shown,
    }

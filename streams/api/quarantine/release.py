"""Lets a signed body that did not fit its source in as an event.

A release writes the event first and its note second. After a crash between the two, the entry still
waits; a second release gives the same event and the same job.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from streams.api.operator_state import AppState
from streams.api.payloads import open_body, refuse_erased_body
from streams.api.quarantine import table as quarantine
from streams.api.refusal import Refusal, unknown
from streams.api.remedy import get, put
from streams.api.tenants import table as tenants
from streams.api.tenants.guards import enabled_tenant
from streams.errors import Erased, Misfit
from streams.kafka.fenced_write import OutgoingRecord
from streams.process.wall_clock import wall_ms
from streams.serde import ids, keys
from streams.serde.codec import QUARANTINED
from streams.serde.records import Quarantined
from streams.tenants.settings import SourceSettings, source_settings


async def release(state: AppState, id_: str, note: str) -> Quarantined:
    """Normalize a body again under its source's present mapping, and let it in as an event.

    Raises:
        Refusal: 404; 409, it still does not fit, or its source has no mapping; 410, its tenant was
            erased.
    """
    record = await known_body(state, id_)
    if record.released_at is not None:
        return record
    return await _released(state, record, note)


async def payload(state: AppState, id_: str) -> bytes:
    """Return the raw body, exactly as its vendor signed it, for whoever fixes the mapping."""
    record = await known_body(state, id_)
    body = await body_of(state, record)
    await state.audited(state.entry(id_, record.tenant_id))
    return body


async def known_body(state: AppState, id_: str) -> Quarantined:
    """Return what is known of a body in quarantine; refuse with 404 if there is none."""
    record = await state.query(lambda db: quarantine.quarantined(db, id_))
    if record is None:
        all_ = get("quarantine")
        raise unknown("quarantined body", id_, f"{all_} lists them", all_)
    return record


async def _released(state: AppState, record: Quarantined, note: str) -> Quarantined:
    await refuse_erased_body(state, record.tenant_id)
    await enabled_tenant(state, record.tenant_id)
    settings = await source_of(state, record)
    body = await body_of(state, record)
    try:
        admitted = await state.admission.release(record, settings, body)
    except Erased as error:
        raise Refusal(410, "payload-erased", str(error)) from None
    except Misfit as misfit:
        raise Refusal(
            409,
            "still-misfit",
            f"{record.event_id} does not fit its source yet: {misfit}; if possible, correct the "
            f"mapping of {record.source}, then release it again",
            reason=misfit.reason,
        ) from None
    noted = replace(
        record,
        released_at=wall_ms(),
        note=note,
        released_by=state.principal.id,
        job_id=admitted.job_id,
    )
    await _write(state, noted)
    return noted


async def _write(state: AppState, record: Quarantined) -> None:
    """Return once the record is durable and, unless the read model is late, shown."""
    key = (record.tenant_id, record.source, record.payload_hash)
    entry = state.entry(
        record.event_id, record.tenant_id, note=record.note, verb="quarantine.release"
    )
    home = ids.partition_for(record.tenant_id, state.topology.partitions)
    named, value = keys.quarantine_key(*key), QUARANTINED.encode(record)
    await state.audited(entry, OutgoingRecord("quarantine", named, value, home))

    def shown(connection: sqlite3.Connection) -> Quarantined | None:
        found = quarantine.quarantined(connection, record.event_id)
        return found if found is not None and found.released_at is not None else None

    row = (record.tenant_id, record.source, record.payload_hash.hex())
    await state.wait_for(("quarantine", row), shown)


async def body_of(state: AppState, record: Quarantined) -> bytes:
    """Return the body of an entry, opened."""
    return await open_body(state, record.tenant_id, record.event_id, record.payload_ref)


async def source_of(state: AppState, record: Quarantined) -> SourceSettings:
    """Return the present settings of an entry's source.

    Raises:
        Refusal: 409, it has none.
    """
    found = await state.query(
        lambda db: tenants.setting(db, record.tenant_id, "source", record.source)
    )
    if found is None or found.disabled:
        set_up = put("tenants", record.tenant_id, "sources", record.source)
        raise Refusal(
            409,
            "source-disabled",
            f"its source has no mapping now: set it up with {set_up}, then release it",
            remedy=set_up,
        )
    return source_settings(found)

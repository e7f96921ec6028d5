"""Calls on signed bodies that did not fit their source: show one, release one.

A release writes the event first and its note second. After a crash between the two, the entry still
waits; a second release gives the same event and the same job.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import Annotated

from aiohttp import web

from streams.api.fields import Body, noted
from streams.api.operator_state import SUBMITTED_BY, AppState
from streams.api.payloads import open_body, refuse_erased_body
from streams.api.quarantine import table as quarantine
from streams.api.quarantine.table import quarantined_json
from streams.api.refusal import Refusal, unknown
from streams.api.serving.attachment import attachment
from streams.api.serving.request_body import read_body
from streams.api.serving.state import STATE
from streams.api.tenants import table as tenants
from streams.api.tenants.guards import enabled_tenant
from streams.errors import Erased, Misfit
from streams.process.wall_clock import wall_ms
from streams.serde import ids, keys
from streams.serde.codec import QUARANTINED
from streams.serde.records import Quarantined
from streams.tenants.settings import SourceSettings, source_settings

routes = web.RouteTableDef()


class ReleaseRequest(Body):
    """Body of `POST /v1/quarantine/{id}/release`; the note is kept."""

    note: Annotated[str, noted("must say what was mended")]


@routes.get("/v1/quarantine/{id}")
async def get_quarantined(request: web.Request) -> web.Response:
    """Show why a body is in quarantine and what became of it, but not the body itself."""
    record = await _known(request.app[STATE], request.match_info["id"])
    return web.json_response(quarantined_json(record))


@routes.get("/v1/quarantine/{id}/payload")
async def get_payload(request: web.Request) -> web.Response:
    """Answer the raw body, exactly as its vendor signed it, for whoever fixes the mapping."""
    state = request.app[STATE]
    return attachment(await _body(state, await _known(state, request.match_info["id"])))


@routes.post("/v1/quarantine/{id}/release")
async def release(request: web.Request) -> web.Response:
    """Normalize a body again under its source's present mapping, and let it in as an event."""
    state, id_ = request.app[STATE], request.match_info["id"]
    wanted = await read_body(request, ReleaseRequest)
    record = await _known(state, id_)
    if record.released_at is None:
        record = await _released(state, record, wanted.note)
    return web.json_response(quarantined_json(record), status=202)


async def _released(state: AppState, record: Quarantined, note: str) -> Quarantined:
    await refuse_erased_body(state, record.tenant_id)
    await enabled_tenant(state, record.tenant_id)
    settings = await _settings(state, record)
    body = await _body(state, record)
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
        record, released_at=wall_ms(), note=note, released_by=SUBMITTED_BY, job_id=admitted.job_id
    )
    await _write(state, noted)
    return noted


async def _write(state: AppState, record: Quarantined) -> None:
    """Return once the record is durable and, unless the read model is late, shown."""
    key = (record.tenant_id, record.source, record.payload_hash)
    await state.producer.send(
        "quarantine",
        keys.quarantine_key(*key),
        QUARANTINED.encode(record),
        partition=ids.partition_for(record.tenant_id, state.topology.partitions),
    )

    def shown(connection: sqlite3.Connection) -> Quarantined | None:
        found = quarantine.quarantined(connection, record.event_id)
        return found if found is not None and found.released_at is not None else None

    row = (record.tenant_id, record.source, record.payload_hash.hex())
    await state.wait_for(("quarantine", row), shown)


async def _body(state: AppState, record: Quarantined) -> bytes:
    return await open_body(state, record.tenant_id, record.event_id, record.payload_ref)


async def _settings(state: AppState, record: Quarantined) -> SourceSettings:
    found = await state.query(
        lambda db: tenants.setting(db, record.tenant_id, "source", record.source)
    )
    if found is None or found.disabled:
        where = f"/v1/tenants/{record.tenant_id}/sources/{record.source}"
        raise Refusal(
            409,
            "source-disabled",
            f"its source has no mapping now: set it up with PUT {where}, then release it",
        )
    return source_settings(found)


async def _known(state: AppState, id_: str) -> Quarantined:
    record = await state.query(lambda db: quarantine.quarantined(db, id_))
    if record is None:
        raise unknown("quarantined body", id_, "GET /v1/quarantine lists them")
    return record

"""`POST /v1/tenants/{t}/events:batch`: many events at once, each with its own answer.

A batch is not atomic: an event that is refused fails alone. Sending the whole batch again is safe,
because each event's dedup key makes it one job (G1).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from streams.api.backlog.admission import full_refusal, open_backlog
from streams.api.events.batch_request import BatchRequest, EventRequest
from streams.api.fields import validated
from streams.api.refusal import Refusal
from streams.api.rows.json_values import Json
from streams.api.serving.request_body import read_body, traceparent
from streams.api.serving.state import STATE
from streams.api.tenants import table as tenants
from streams.api.tenants.guards import enabled_tenant
from streams.errors import Erased, KafkaUnavailable
from streams.event_admission import Admission
from streams.limits.backlog import Backlog
from streams.serde.records import TenantRecord
from streams.tenants.settings import source_settings
from streams.topology.model import Topology

routes = web.RouteTableDef()

MAX_BATCH_BYTES = 8 * 1024 * 1024


@routes.post("/v1/tenants/{tenant_id}/events:batch")
async def submit_events(request: web.Request) -> web.Response:
    """Take up to 500 events; answer `accepted`, `duplicate` or `refused` for each, in order."""
    state, tenant_id = request.app[STATE], request.match_info["tenant_id"]
    larger = request.clone(client_max_size=MAX_BATCH_BYTES)
    wanted = await read_body(larger, BatchRequest)
    await enabled_tenant(state, tenant_id)
    known = await state.query(lambda db: tenants.sources(db, tenant_id))
    topology, waiting = state.topology, await open_backlog(state)
    batch = _Batch(state.admission, topology, waiting, tenant_id, known, traceparent(request))
    results = await asyncio.gather(*(_result(batch, item) for item in wanted.events))
    counts = Counter(each["status"] for each in results)
    totals = {name: counts[name] for name in ("accepted", "duplicate", "refused")}
    return web.json_response({**totals, "results": results})


@dataclass(frozen=True, slots=True)
class _Batch:
    """What the events of a batch have in common."""

    admission: Admission
    topology: Topology
    backlog: Backlog
    tenant_id: str
    sources: dict[str, TenantRecord]
    traceparent: str


async def _result(batch: _Batch, item: Any) -> Json:
    try:
        return await _submitted(batch, validated(item, EventRequest))
    except Refusal as refusal:
        problem = refusal
    except Erased as error:
        problem = Refusal(410, "tenant-erased", str(error))
    except KafkaUnavailable:
        problem = Refusal(
            503, "kafka-unavailable", "not acknowledged by Kafka: send it again, with its dedup_key"
        )
    return {"status": "refused", "problem": problem.json()}


async def _submitted(batch: _Batch, wanted: EventRequest) -> Json:
    url = _callback_url(batch.sources.get(wanted.source))
    _refuse_full(batch, wanted)
    admitted = await batch.admission.submit(wanted.event(batch.tenant_id, batch.traceparent, url))
    status = "duplicate" if admitted.repeated else "accepted"
    return {"status": status, "event_id": admitted.event_id, "job_id": admitted.job_id}


def _refuse_full(batch: _Batch, wanted: EventRequest) -> None:
    """Refuse an event that would have a job, if too many waited as its batch came."""
    route = batch.topology.route(wanted.source, wanted.event_type)
    if route is not None and route.job is not None:
        full = batch.backlog.full(batch.tenant_id, route.job)
        if full is not None:
            raise full_refusal(full)


def _callback_url(source: TenantRecord | None) -> str | None:
    """Return a source's callback; events may also name a source that was never set up."""
    if source is None:
        return None
    if source.disabled:
        enable = f"PUT /v1/tenants/{source.tenant_id}/sources/{source.id} enables it"
        raise Refusal(403, "source-disabled", f"source {source.id!r} is disabled: {enable}")
    return source_settings(source).callback_url

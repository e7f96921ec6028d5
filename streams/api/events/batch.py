"""Lets many events in at once, each with its own answer.

A batch is not atomic: an event that is refused fails alone. Sending the whole batch again is safe,
because each event's dedup key makes it one job (G1).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from streams.api.backlog.admission import full_refusal, open_backlog
from streams.api.events.batch_request import EventRequest
from streams.api.fields import validated
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.api.remedy import put
from streams.api.rows.json_values import Json
from streams.api.tenants import table as tenants
from streams.api.tenants.guards import enabled_tenant
from streams.errors import Erased, KafkaUnavailable
from streams.event_admission import Admission
from streams.limits.backlog import Backlog
from streams.serde.records import TenantRecord
from streams.tenants.settings import source_settings
from streams.topology.model import Topology

_IN_ONE_ENTRY = 250
"""So many ids of events fit in the state of an entry."""


async def let_in(state: AppState, tenant_id: str, events: Sequence[Any], traceparent: str) -> Json:
    """Return `accepted`, `duplicate` or `refused` for each event, in order, and how many of each.

    Raises:
        Refusal: 403, 404 or 409, the tenant gets no jobs.
        KafkaUnavailable: who sent them is in no audit yet: send the batch again.
    """
    await enabled_tenant(state, tenant_id)
    known = await state.query(lambda db: tenants.sources(db, tenant_id))
    topology, waiting = state.topology, await open_backlog(state)
    batch = _Batch(state.admission, topology, waiting, tenant_id, known, traceparent)
    results = await asyncio.gather(*(_result(batch, item) for item in events))
    await _note(state, tenant_id, [r["event_id"] for r in results if "event_id" in r])
    counts = Counter(each["status"] for each in results)
    totals = {name: counts[name] for name in ("accepted", "duplicate", "refused")}
    return {**totals, "results": results}


async def _note(state: AppState, tenant_id: str, event_ids: Sequence[str]) -> None:
    """Write into the audit who let events in: neither they nor their jobs name anybody.

    Raises:
        KafkaUnavailable: it was not acknowledged; the events are let in.
    """
    groups = [event_ids[n : n + _IN_ONE_ENTRY] for n in range(0, len(event_ids), _IN_ONE_ENTRY)]
    states = [(ids[0], orjson.dumps({"events": ids}).decode()) for ids in groups]
    entries = (state.entry(first, tenant_id, after=after) for first, after in states)
    await asyncio.gather(*(state.audited(entry) for entry in entries))


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
        enable = put("tenants", source.tenant_id, "sources", source.id)
        detail = f"source {source.id!r} is disabled: {enable} enables it"
        raise Refusal(403, "source-disabled", detail, remedy=enable)
    return source_settings(source).callback_url

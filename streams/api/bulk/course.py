"""The course of a bulk act: it begins, pauses, goes on, and is cancelled."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress

import orjson

from streams.api.bulk import table as bulk_acts
from streams.api.bulk.bulk_request import BulkRequest
from streams.api.bulk.plan import Plan, planned, tenant_named
from streams.api.bulk.table import act_json, excluded_json
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, unknown
from streams.api.remedy import get
from streams.api.rows.cursor import Cursor
from streams.api.rows.json_values import Json
from streams.api.rows.paging import Page
from streams.api.tenants.guards import known_tenant
from streams.bulk.act import TOPIC, Act
from streams.bulk.journal import Journal, home
from streams.errors import KafkaUnavailable
from streams.serde import ids
from streams.serde.bulk_records import (
    BulkAsked,
    BulkBody,
    BulkCancelled,
    BulkJoined,
    BulkPaused,
)
from streams.serde.records import AuditEntry


async def begin(state: AppState, wanted: BulkRequest, key: str | None) -> Json:
    """Begin an act, or with `dry_run` plan it; the same key and body are the same act.

    Raises:
        Refusal: as of `planned`; 404, the filter names an unknown tenant; 409, the key belongs to
            another act; 503, it may have begun.
    """
    tenant_id = tenant_named(wanted, state.principal)
    if tenant_id is not None:
        await known_tenant(state, tenant_id)
    if wanted.dry_run:
        plan = await planned(state, wanted)
        return {"bulk_id": None, "action": wanted.action, **plan.json()}
    wanted.require_valid()
    bulk_id = ids.bulk_id(state.principal.tenants, key)
    turn = state.bulk_turns.setdefault(bulk_id, asyncio.Lock())
    async with turn:
        return await _begun(state, bulk_id, wanted)


async def show(state: AppState, bulk_id: str) -> Json:
    """Return an act with its progress and who took part; refuse with 404 if it is unknown."""
    known, asked = await _known(state, bulk_id)
    took_part = await state.query(lambda db: bulk_acts.joined(db, bulk_id))
    return act_json(known, asked) | {"joined": took_part}


async def items(
    state: AppState, bulk_id: str, outcome: str | None, limit: int, cursor: Cursor | None
) -> Page:
    """Return a page of an act's items; refuse with 404 if the act is unknown."""
    await _known(state, bulk_id)
    return await state.query(lambda db: bulk_acts.items_page(db, bulk_id, outcome, limit, cursor))


async def pause(state: AppState, bulk_id: str) -> Json:
    """Let an act stand still after the items that it deals with now.

    Raises:
        Refusal: 404; 409, it has ended.
    """
    known = await _open(state, bulk_id)
    await _change(state, known, BulkPaused(True, known.resumed), BulkJoined("pause"))
    return await show(state, bulk_id)


async def resume(state: AppState, bulk_id: str) -> Json:
    """Let an act go on, also one that was stopped for its failures.

    Raises:
        Refusal: 404; 409, it has ended.
    """
    known = await _open(state, bulk_id)
    await _change(state, known, BulkPaused(False, known.stops), BulkJoined("resume"))
    return await show(state, bulk_id)


async def cancel(state: AppState, bulk_id: str, note: str) -> Json:
    """End an act for good; what it has done stays. A cancelled act is returned as it is.

    Raises:
        Refusal: 404; 409, it has ended otherwise.
    """
    known, _ = await _known(state, bulk_id)
    if known.cancelled is None:
        known = await _open(state, bulk_id)
        await _change(state, known, BulkCancelled(note), BulkJoined("cancel"), note=note)
    return await show(state, bulk_id)


async def _begun(state: AppState, bulk_id: str, wanted: BulkRequest) -> Json:
    """Begin an act, unless it is known; the caller has its turn."""
    known = await _shown(state, bulk_id)
    if known.asked is not None:
        _require_same(known, wanted)
        await _journal(state).write(bulk_id, [BulkJoined("ask")])
        return await state.query(lambda db: _begun_json(db, known, known.asked))
    plan = await planned(state, wanted)
    return await _asked_for(state, bulk_id, plan.asked(wanted, state.principal), plan)


async def _asked_for(state: AppState, bulk_id: str, asked: BulkAsked, plan: Plan) -> Json:
    """Write an act, its items first: a half-written one is no act, and can be asked for again."""
    try:
        await _journal(state).write(bulk_id, plan.items)
        entry = state.entry(
            bulk_id, asked.tenant_id or "", after=_begun_state(asked), note=asked.note
        )
        await _write(state, bulk_id, entry, asked, BulkJoined("ask"))
    except KafkaUnavailable as error:
        look = get("bulk", bulk_id)
        raise Refusal(
            503,
            "kafka-unavailable",
            f"not acknowledged by Kafka ({error}): bulk act {bulk_id} may have begun. Look at "
            f"{look} before you ask again, or ask with the same Idempotency-Key",
            remedy=look,
            bulk_id=bulk_id,
        ) from None
    with suppress(Refusal, sqlite3.Error):
        await _shown(state, bulk_id)
    return {"bulk_id": bulk_id, "action": asked.action, **plan.json()}


def _begun_json(connection: sqlite3.Connection, known: Act, asked: BulkAsked | None) -> Json:
    assert asked is not None  # noqa: S101  the caller has looked
    return {
        "bulk_id": known.bulk_id,
        "action": asked.action,
        "count": asked.count,
        "samples": bulk_acts.samples(connection, known),
        "excluded": excluded_json(asked.excluded),
    }


def _require_same(known: Act, wanted: BulkRequest) -> None:
    if known.asked is not None and known.asked.digest != wanted.digest():
        raise Refusal(
            409,
            "key-reused",
            f"this key belongs to bulk act {known.bulk_id}, asked for with another body: send the "
            "same body, or a new key",
            bulk_id=known.bulk_id,
        )


async def _open(state: AppState, bulk_id: str) -> Act:
    """Return an act that has not ended.

    Raises:
        Refusal: 404; 409, it has ended, or is to end.
    """
    known, _ = await _known(state, bulk_id)
    if known.ended or known.cancelled is not None:
        raise Refusal(409, "bulk-ended", f"bulk act {bulk_id} is {known.status}: begin another one")
    return known


async def _known(state: AppState, bulk_id: str) -> tuple[Act, BulkAsked]:
    known = await _shown(state, bulk_id)
    if known.asked is None:
        all_ = get("bulk")
        raise unknown("bulk act", bulk_id, f"{all_} lists them", all_)
    return known, known.asked


async def _shown(state: AppState, bulk_id: str) -> Act:
    """Return an act as it was when this was called, or later.

    Raises:
        Refusal: 503, the read model is late: call again.
    """
    await state.read_barrier((TOPIC, home(bulk_id, state.topology.partitions)))
    return await state.query(lambda db: bulk_acts.act(db, bulk_id))


async def _change(state: AppState, known: Act, *bodies: BulkBody, note: str | None = None) -> None:
    """Change an act; the entry of the audit says in which state it was."""
    tenant_id = (known.asked.tenant_id if known.asked else None) or ""
    before = orjson.dumps({"status": known.status}).decode()
    entry = state.entry(known.bulk_id, tenant_id, before=before, note=note)
    await _write(state, known.bulk_id, entry, *bodies)


async def _write(
    state: AppState, bulk_id: str, entry: AuditEntry | None, *bodies: BulkBody
) -> None:
    journal = _journal(state)
    await state.audited(entry, *(journal.record(bulk_id, body) for body in bodies))


def _begun_state(asked: BulkAsked) -> str:
    """Return what the audit shows of a new act; the act itself has its filter."""
    return orjson.dumps({"action": asked.action, "count": asked.count}).decode()


def _journal(state: AppState) -> Journal:
    return Journal(state.producer, state.topology.partitions, state.principal.id)

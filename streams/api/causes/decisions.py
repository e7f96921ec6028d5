"""Decides about causes: resolves, ignores and opens them again."""

from __future__ import annotations

import sqlite3
from functools import partial

import orjson

from streams.api.causes import standing as standings
from streams.api.causes import table as causes
from streams.api.causes.decision import IGNORED, KIND, Decision, State
from streams.api.causes.standing import Standing
from streams.api.operator_state import AppState, tenant_record
from streams.api.refusal import Refusal, invalid, unknown
from streams.api.remedy import get
from streams.api.rows.json_values import Json
from streams.api.rows.table import Row
from streams.api.tenants.table import setting
from streams.http.moments import milliseconds, rfc3339
from streams.process.wall_clock import wall_ms


async def show(state: AppState, cause_id: str) -> Json:
    """Return a cause with a letter of it; refuse with 404 if the caller sees no letter of it."""
    shown = await state.query(lambda db: causes.shown_cause(db, cause_id))
    if shown is None:
        raise _unknown(cause_id)
    return shown


async def ignore(state: AppState, cause_id: str, note: str, until: str) -> Json:
    """Leave a cause aside until a time; raises what `decide` raises, and 422 for a past time."""
    end = milliseconds(until)
    if end <= wall_ms():
        raise invalid("until", "must lie in the future")
    return await decide(state, cause_id, IGNORED, note, end)


async def decide(
    state: AppState, cause_id: str, what: State, note: str, until: int | None = None
) -> Json:
    """Keep a decision about a cause, and return the cause as it stands then.

    Whoever has all tenants decides for all; anybody else for those of their own that it hit.

    Raises:
        Refusal: 404, the caller sees none of its letters; 503, the read model is late: call again.
        KafkaUnavailable: it was not acknowledged; it may still be written.
    """
    async with state.tenant_writes:
        known = await _known(state, cause_id)
        at = max(wall_ms(), known.newest.last_at, _decided_at(known) + 1)
        decision = Decision(cause_id, what, state.principal.id, note, at, until)
        for tenant_id in _about(state, known):
            await _write(state, known, tenant_id, decision)
    return await show(state, cause_id)


async def _known(state: AppState, cause_id: str) -> Standing:
    def look(connection: sqlite3.Connection) -> Standing | None:
        whose = standings.readers(connection, {})
        return standings.standing(connection, whose, cause_id, wall_ms())

    found = await state.query(look)
    if found is None:
        raise _unknown(cause_id)
    return found


def _decided_at(known: Standing) -> int:
    return max(row.decided_at or 0 for row in known.rows)


def _about(state: AppState, known: Standing) -> list[str]:
    """Return the tenants under which a decision is kept; the empty one stands for all."""
    if state.principal.has_every_tenant:
        return [""]
    return [row.tenant_id for row in known.rows]


async def _write(state: AppState, known: Standing, tenant_id: str, decision: Decision) -> None:
    """Write a decision with its entry; return once the read model shows it."""
    key: Row = (tenant_id, KIND, decision.cause_id)
    rows = (row for row in known.rows if tenant_id in ("", row.tenant_id))
    before = next((_text(row.decision or "open", row.until) for row in rows), None)
    entry = state.entry(
        decision.cause_id,
        tenant_id,
        before=before,
        after=_text(decision.state, decision.until),
        note=decision.note,
    )
    record = tenant_record(key, decision.record(tenant_id), state.home(tenant_id))
    await state.audited(entry, record)
    await state.wait_until(("tenants", key), partial(_is_shown, key=key, at=decision.at))


def _text(what: State, until: int | None) -> str:
    return orjson.dumps({"state": what, "until": rfc3339(until)}).decode()


def _is_shown(connection: sqlite3.Connection, key: Row, at: int) -> bool:
    found = setting(connection, *key)
    return found is not None and found.updated_at >= at


def _unknown(cause_id: str) -> Refusal:
    all_ = get("causes")
    hint = f"its letters are gone, or no letter of yours has it: {all_} lists causes"
    return unknown("cause", cause_id, hint, all_)

"""Finds an event that a call names, or refuses the call."""

from __future__ import annotations

from streams.api.events import table as events
from streams.api.events.story import shown_event
from streams.api.operator_state import AppState
from streams.api.payloads import open_body
from streams.api.refusal import Refusal, unknown
from streams.api.remedy import get
from streams.api.rows.json_values import Json


async def story(state: AppState, event_id: str) -> Json:
    """Return an event with all that became of it; refuse with 404 if it is unknown."""
    shown = await state.query(lambda db: shown_event(db, event_id, state.topology))
    if shown is None:
        raise unknown_event(event_id)
    return shown


async def payload(state: AppState, event_id: str) -> bytes:
    """Return the raw body, exactly as its vendor signed it.

    Raises:
        Refusal: 404, there is no such event; otherwise as of `open_body`.
    """
    found = await state.query(lambda db: events.event(db, event_id))
    if found is None:
        raise unknown_event(event_id)
    body = await open_body(state, found.tenant_id, event_id, found.payload_ref)
    await state.audited(state.entry(event_id, found.tenant_id))
    return body


def unknown_event(event_id: str) -> Refusal:
    """Return the refusal of an event that has no row."""
    all_ = get("events")
    hint = (
        "it is a duplicate, waits in the quarantine, is not shown yet, or is older than the list "
        f"(TIDEGATE_EVENTS_LISTED_HOURS, 24 by default): {all_} lists events; duplicates and "
        "bodies in quarantine have lists of their own, and the topic `events` keeps older events"
    )
    return unknown("event", event_id, hint, all_)

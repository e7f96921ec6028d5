"""Ends sessions before their time, by records that every operator follows."""

from __future__ import annotations

import asyncio

from streams.access.session import Session
from streams.access.session_ends import SessionEnd, SessionEnds, end_of, end_of_all
from streams.access.token_records import PARTITION
from streams.api.operator_state import AppState
from streams.process.wall_clock import wall_ms
from streams.serde import keys
from streams.serde.codec import TENANT


async def end_session(state: AppState, ends: SessionEnds, session: Session) -> None:
    """End one session of the person who asks for that.

    Raises:
        KafkaUnavailable: the end was not acknowledged; it may still be written.
    """
    await _write(state, ends, end_of(session, wall_ms(), session.person), session.person)


async def end_sessions(state: AppState, ends: SessionEnds, person: str, by: str, note: str) -> None:
    """End all sessions that a person has now.

    Raises:
        KafkaUnavailable: the end was not acknowledged; it may still be written.
    """
    await _write(state, ends, end_of_all(person, wall_ms(), by, note), person, note)


async def _write(
    state: AppState, ends: SessionEnds, end: SessionEnd, person: str, note: str | None = None
) -> None:
    """Write an end, and delete those that end nothing any more.

    This operator knows the end as soon as it is durable, and the others when they read it.
    """
    record = end.record()
    entry = state.entry(person, after=record, note=note)
    await state.set_tenant(end.key, record, PARTITION, entry)
    ends.apply(keys.tenant_key(*end.key), TENANT.encode(record))
    over = ends.forgettable(wall_ms())
    await asyncio.gather(*(state.set_tenant(key, None, PARTITION) for key in over))

"""Where a reader's stream goes on: from the id that it was given last, or with a gap."""

from __future__ import annotations

import asyncio

from streams.api.jobs.known import unknown_job
from streams.api.live.frames import Frame
from streams.api.live.hub import Hub
from streams.api.live.position import (
    HOUR_MS,
    TOPIC_OF_JOBS,
    MalformedPosition,
    Position,
    read_position,
)
from streams.api.live.reading import Reading
from streams.api.live.subject import Subject, unknown
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.process.wall_clock import wall_ms


def position_of(last_event_id: str | None, about: Subject) -> Position:
    """Return the reader's position.

    Raises:
        Refusal: 400, the id is malformed, or of another stream.
    """
    if not last_event_id:
        return Position(about.digest)
    try:
        found = read_position(last_event_id)
    except MalformedPosition as error:
        told = f"Last-Event-ID is no id that a stream gave out ({error}): leave it out"
        raise Refusal(400, "malformed-event-id", told) from None
    if found.digest != about.digest:
        told = "Last-Event-ID is of a stream of other jobs: leave it out"
        raise Refusal(400, "malformed-event-id", told)
    return found


async def require_known(state: AppState, hub: Hub, about: Subject, position: Position) -> None:
    """Return if all jobs are there; a reader who saw one elsewhere waits until it is here.

    Raises:
        Refusal: 404, a job is unknown; 503, it is accepted, or the rows do not come in time.
    """
    missing = await state.query(lambda db: unknown(db, about))
    if missing and position.offsets:
        seen_in = position.offsets.keys() & set(range(state.topology.partitions))
        await asyncio.gather(*(hub.settle(each, TOPIC_OF_JOBS) for each in seen_in))
        missing = await state.query(lambda db: unknown(db, about))
    if missing:
        raise unknown_job(missing[0])


def kept(position: Position, kept_ms: int) -> tuple[Position, tuple[Frame, ...]]:
    """Return where a reader goes on, and what it is told first if something may be missing."""
    is_kept = position.hour * HOUR_MS >= wall_ms() - kept_ms
    if is_kept or not (position.offsets or position.ended):
        return position, ()
    reason = f"what was said is kept for {kept_ms // HOUR_MS} hours, and this id may be older"
    return Position(position.digest), (Frame("gap", {"reason": reason}),)


async def has_seen_all(state: AppState, about: Subject, position: Position) -> bool:
    """Whether the reader was told all ends, and nothing lives again since.

    What a run says after its job's end is told to nobody.
    """
    if len(position.ended) < about.parts:
        return False
    reading = Reading(about, position, state.topology)
    page = await state.query(lambda db: reading.page(db, reading.everything))
    if page.unsettled or len(position.ended) < about.parts:
        return False
    return all(frame.part is None for frame in page.frames)

"""The course of a replay of events: it begins, pauses, goes on, and is stopped."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from functools import partial

from confluent_kafka import KafkaException

from streams.api.job_types import known as known_types
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, unknown
from streams.api.remedy import get
from streams.api.replays import table as event_replays
from streams.api.replays.replay_request import ReplayEventsRequest
from streams.api.replays.table import replay_json, selection_json
from streams.api.rights import require_every_tenant
from streams.api.rows.json_values import Json
from streams.api.tenants.guards import enabled_tenant
from streams.errors import KafkaUnavailable
from streams.event_replay.preview import MOST_RECORDS, TooWide
from streams.event_replay.replay import KINDS, TOPIC, Replay
from streams.kafka.fenced_write import OutgoingRecord
from streams.process.daemon_thread import in_daemon_thread
from streams.process.wall_clock import wall_ms
from streams.serde import ids, keys
from streams.serde.codec import REPLAY
from streams.serde.replay_records import (
    ReplayAsked,
    ReplayBody,
    ReplayPaused,
    ReplayRecord,
    ReplayStopped,
)

_ALL = get("replays")


async def begin(state: AppState, wanted: ReplayEventsRequest, key: str | None) -> Json:
    """Begin a replay, or with `dry_run` count what it would do; the same key begins it once.

    Raises:
        Refusal: 403, 404 or 409, the tenant gets no jobs; 409, the key belongs to another replay;
            422, the selection is too wide to be counted; 503, it may have begun.
    """
    asked = wanted.asked(state.topology, wall_ms())
    if asked.tenant_id is None:
        require_every_tenant(state.principal)
    else:
        await enabled_tenant(state, asked.tenant_id)
    if wanted.dry_run:
        found = await _previewed(state, asked)
        return found | {"warning": await _doubt(state, asked.job)}
    doubt = await _doubt(state, asked.job)
    known = await _begun(state, ids.event_replay_id(asked.tenant_id, key), asked)
    return shown_json(known) | {"warning": doubt}


async def change(state: AppState, replay_id: str, body: ReplayPaused) -> Json:
    """Let a replay stand still, or go on.

    Raises:
        Refusal: 404; 409, it has ended.
    """
    return await _changed(state, await known_replay(state, replay_id), body)


async def stop(state: AppState, replay_id: str, note: str) -> tuple[Json, bool]:
    """End a replay for good; return it, and whether it had not ended before.

    Raises:
        Refusal: 404.
    """
    known = await known_replay(state, replay_id)
    if known.ended or known.stopped is not None:
        return shown_json(known), False
    return await _changed(state, known, ReplayStopped(note), note), True


async def known_replay(state: AppState, replay_id: str) -> Replay:
    """Return a replay; refuse with 404 if nobody asked for it."""
    known = await state.query(lambda db: event_replays.replay(db, replay_id))
    if known.asked is None:  # the read model may be late: a 404 would say that none has begun
        known = await _shown(state, replay_id)
    if known.asked is None:
        raise unknown("replay", replay_id, f"{_ALL} lists them", _ALL)
    return known


def shown_json(known: Replay) -> Json:
    """Return a replay that was asked for as the API shows it."""
    assert known.asked is not None  # noqa: S101  every caller has looked
    return replay_json(known, known.asked)


async def _doubt(state: AppState, job: str | None) -> str | None:
    """Return why no worker may handle the type of job that is asked for."""
    if job is None:
        return None
    return await state.query(lambda db: known_types.doubt_about(db, state.topology, job))


async def _previewed(state: AppState, asked: ReplayAsked) -> Json:
    try:
        async with state.preview_turn:
            found = await in_daemon_thread(partial(state.preview, asked))
    except TooWide as error:
        raise Refusal(
            422,
            "selection-too-wide",
            f"{error.records} records of events lie in this selection, and a dry run reads at most "
            f"{MOST_RECORDS}: narrow it by tenant, a later `since` or offsets, or count it with "
            "`tidegate events count`",
        ) from None
    except KafkaException as error:
        raise KafkaUnavailable(f"events: {error.args[0].str()}") from error
    return {"dry_run": True, **found, "selection": selection_json(asked), "rate": asked.rate}


async def _begun(state: AppState, replay_id: str, asked: ReplayAsked) -> Replay:
    """Begin a replay, or find the one that this key began."""
    known = await _shown(state, replay_id)
    if known.asked is None:
        known = await _asked_for(state, replay_id, asked)
    if known.asked is not None and known.asked.digest != asked.digest:
        raise Refusal(
            409,
            "key-reused",
            f"this key belongs to replay {replay_id}, asked for with another body: send the same "
            "body, or a new key",
            replay_id=replay_id,
        )
    return known


async def _asked_for(state: AppState, replay_id: str, asked: ReplayAsked) -> Replay:
    """Ask for a replay, which has begun also where the read model is late.

    Raises:
        Refusal: 503, it may have begun.
    """
    try:
        await _write(state, replay_id, asked, asked.tenant_id, asked.note)
    except KafkaUnavailable as error:
        look = get("replays", replay_id)
        raise Refusal(
            503,
            "kafka-unavailable",
            f"not acknowledged by Kafka ({error}): replay {replay_id} may have begun. Look at "
            f"{look} before you ask again, or ask with the same "
            "Idempotency-Key",
            remedy=look,
            replay_id=replay_id,
        ) from None
    with suppress(Refusal, sqlite3.Error):
        return await _shown(state, replay_id)
    return Replay(replay_id, asked, wall_ms(), state.principal.id)


async def _changed(
    state: AppState, known: Replay, body: ReplayPaused | ReplayStopped, note: str | None = None
) -> Json:
    if known.ended or known.stopped is not None:
        raise Refusal(
            409, "replay-ended", f"replay {known.replay_id} is {known.status}: begin another one"
        )
    tenant_id = None if known.asked is None else known.asked.tenant_id
    await _write(state, known.replay_id, body, tenant_id, note)
    return shown_json(await _shown(state, known.replay_id))


async def _write(
    state: AppState, replay_id: str, body: ReplayBody, tenant_id: str | None, note: str | None
) -> None:
    record = ReplayRecord(replay_id, wall_ms(), state.principal.id, body)
    key = keys.replay_key(replay_id, KINDS[type(body)])
    home = ids.partition_for(replay_id, state.topology.partitions)
    sent = OutgoingRecord(TOPIC, key, REPLAY.encode(record), home)
    await state.audited(state.entry(replay_id, tenant_id or "", note=note), sent)


async def _shown(state: AppState, replay_id: str) -> Replay:
    """Return a replay as it was when this was called, or later.

    Raises:
        Refusal: 503, the read model is late: call again.
    """
    await state.read_barrier((TOPIC, ids.partition_for(replay_id, state.topology.partitions)))
    return await state.query(lambda db: event_replays.replay(db, replay_id))

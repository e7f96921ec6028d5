"""Calls on dead letters: show one, replay a job as a new one, send records in again."""

from __future__ import annotations

from aiohttp import web

from streams.operator.http.app_state import STATE, AppState
from streams.operator.http.listing import cursor_in
from streams.operator.http.refusal import Refusal
from streams.operator.http.replay_request import BulkReplayRequest, ReplayRequest
from streams.operator.http.request_body import idempotency_key, read_body
from streams.operator.replay.eligibility import Unfit, unfit
from streams.operator.replay.jobs import JobReplay, replayed, unknown_letter
from streams.operator.replay.producer import NotTaken
from streams.operator.replay.records import replay_most, replay_records
from streams.operator.resources import dead_letters, dead_records, jobs
from streams.operator.resources.dead_letters import dead_letter_json, dead_record_json
from streams.operator.resources.json_values import Json, rfc3339
from streams.serde.records import DeadLetter

routes = web.RouteTableDef()


@routes.get("/v1/dlq/{id}")
async def get_dead_letter(request: web.Request) -> web.Response:
    """Show a dead letter with its job, or with the bytes of its record."""
    state, id_ = request.app[STATE], request.match_info["id"]
    letter = await state.query(lambda db: dead_letters.dead_letter(db, id_))
    if letter is None:
        raise unknown_letter(id_)
    shown = await state.query(lambda db: dead_letters.shown_letter(db, letter))
    if letter.kind == "record":
        return web.json_response(shown | dead_record_json(letter))
    job = await state.query(lambda db: jobs.shown_job(db, id_, state.topology))
    return web.json_response(shown | {"job": job})


@routes.post("/v1/dlq/{id}/replay")
async def replay(request: web.Request) -> web.Response:
    """Run a dead job, or one in review, again as a new job; send a dead record in again."""
    state, id_ = request.app[STATE], request.match_info["id"]
    wanted = await read_body(request, ReplayRequest)
    key = idempotency_key(request)
    letter = await state.query(lambda db: dead_letters.dead_letter(db, id_))
    if letter is None or letter.kind == "job":
        return web.json_response(await replayed(state, JobReplay(id_, wanted, key)), status=202)
    wanted.require_record()
    return web.json_response(await _record_replayed(state, id_, wanted), status=202)


@routes.post("/v1/dlq:replay")
async def replay_in_bulk(request: web.Request) -> web.Response:
    """Send dead records in again, in the order of their offsets, a page at a time."""
    state, wanted = request.app[STATE], await read_body(request, BulkReplayRequest)
    cursor = cursor_in(wanted.cursor)
    found = await state.query(
        lambda db: dead_records.selected(db, wanted.wanted(), wanted.limit, cursor)
    )
    sent, left_out = 0, list[tuple[str, Unfit]]()
    for batch in found.batches:
        if wanted.dry_run:
            unfit_ones = await _unfit(state, batch)
            sent += len(batch) - len(unfit_ones)
        else:
            done = await replay_most(state, batch, wanted.incident_note)
            sent, unfit_ones = sent + len(done.sent), list(done.left_out)
        left_out += unfit_ones
    return web.json_response({
        "dry_run": wanted.dry_run,
        "matched": found.matched,
        "replayed": 0 if wanted.dry_run else sent,
        "replayable": sent,
        "left_out": [{"id": id_, "reason": w.name, "detail": w.detail} for id_, w in left_out],
        "next_cursor": None if found.next is None else str(found.next),
    })  # fmt: skip


async def _unfit(state: AppState, ids: tuple[str, ...]) -> list[tuple[str, Unfit]]:
    kept = await state.query(lambda db: dead_records.letters(db, ids))
    judged = [(each.letter.id, unfit(each.letter, state.topology, False)) for each in kept]
    return [(id_, reason) for id_, reason in judged if reason is not None]


async def _record_replayed(state: AppState, id_: str, wanted: ReplayRequest) -> Json:
    try:
        done = await replay_records(state, [id_], wanted.incident_note, again=wanted.again)
    except NotTaken as error:
        detail = f"Kafka refuses the record ({error}): see `tidegate topology plan` for its topic"
        raise Refusal(409, "not-taken", detail) from None
    for _, reason in done.left_out:
        raise Refusal(409, reason.name, reason.detail)
    if not done.sent:
        raise unknown_letter(id_)
    return dead_letter_json(done.sent[0]) | {"sent": _sent(state, done.sent[0])}


def _sent(state: AppState, letter: DeadLetter) -> Json:
    """Return where the record went, and whose time it has there."""
    appended = state.topology.topics[letter.topic or ""].timestamp == "append"
    kept = letter.timestamp is not None and not appended
    return {
        "topic": letter.topic,
        "partition": letter.partition,
        "timestamp": rfc3339(letter.timestamp if kept else letter.replayed_at),
        "timestamp_of": "record" if kept else "replay",
    }

"""Calls on dead letters: show one, replay a job as a new one, send records in again, discard."""

from __future__ import annotations

from aiohttp import web

from streams.api.dead_letters import table as dead_letters
from streams.api.dead_letters import to_replay as letters_to_replay
from streams.api.dead_letters.discards import discarded
from streams.api.dead_letters.job_replay import JobReplay, replayed, unknown_letter
from streams.api.dead_letters.page_replay import judge_page, replay_page
from streams.api.dead_letters.producer import NotTaken
from streams.api.dead_letters.record_replay import replay_records
from streams.api.dead_letters.replay_request import BulkReplayRequest, DiscardRequest, ReplayRequest
from streams.api.dead_letters.table import dead_letter_json, dead_record_json
from streams.api.jobs import table as jobs
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.api.rows.json_values import Json
from streams.api.serving.listing import cursor_in, page_query
from streams.api.serving.request_body import idempotency_key, read_body
from streams.api.serving.state import STATE
from streams.http.moments import rfc3339
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


@routes.get("/v1/dlq:count")
async def count(request: web.Request) -> web.Response:
    """Count dead letters by error, under the filters of their list."""
    query = page_query(request, dead_letters.LISTING.filters)
    found, more = await request.app[STATE].query(lambda db: dead_letters.errors(db, query))
    return web.json_response({"errors": found, "more": more})


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
    """Replay dead jobs, oldest first, and records, in the order of their offsets, a page a call."""
    state, wanted = request.app[STATE], await read_body(request, BulkReplayRequest)
    cursor = cursor_in(wanted.cursor)
    found = await state.query(
        lambda db: letters_to_replay.selected(db, wanted.filters(), wanted.limit, cursor)
    )
    act = judge_page if wanted.dry_run else replay_page
    done = await act(state, found, wanted.incident_note)
    return web.json_response(
        {
            "dry_run": wanted.dry_run,
            "matched": found.matched,
            "replayed": 0 if wanted.dry_run else done.jobs + done.records,
            "replayable": done.jobs + done.records,
            "jobs": done.jobs,
            "records": done.records,
            "left_out": [{"id": i, "reason": w.name, "detail": w.detail} for i, w in done.left_out],
            "next_cursor": None if found.next is None else str(found.next),
        }
    )


@routes.post("/v1/dlq/{id}/discard")
async def discard(request: web.Request) -> web.Response:
    """Mark a dead letter about which nothing is left to do: lists leave it out from now on."""
    state, id_ = request.app[STATE], request.match_info["id"]
    wanted = await read_body(request, DiscardRequest)
    try:
        letter = await discarded(state, id_, wanted.note)
    except NotTaken as error:
        detail = f"Kafka refuses the dead letter ({error}): see `tidegate topology plan` for dlq"
        raise Refusal(409, "not-taken", detail) from None
    if letter is None:
        raise unknown_letter(id_)
    return web.json_response(await state.query(lambda db: dead_letters.shown_letter(db, letter)))


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
    """Return where the letter went, and the time that its record has for the stage."""
    return {
        "topic": state.topology.letter_input(letter.stage),
        "partition": letter.partition,
        "timestamp": rfc3339(letter.timestamp),
    }

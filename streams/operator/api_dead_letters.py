"""Calls on dead letters: list, show, and replay of a job as a new one."""

from __future__ import annotations

import sqlite3
from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, ConfigDict

from streams.operator import queries
from streams.operator.listing import list_answer, page_wanted
from streams.operator.notes import noted
from streams.operator.parts import PARTS, SUBMITTED_BY, Parts, idempotency_key, now_ms, read_body
from streams.operator.pending import pending_replay
from streams.operator.refusal import Refusal, unknown
from streams.operator.standing import refuse_erased
from streams.operator.views import Around, Json, dead_letter_json, dead_record_json, job_json
from streams.serde import ids
from streams.serde.records import DeadLetter, Job, Replay

routes = web.RouteTableDef()

_REPLAYABLE = frozenset({"failed", "dead", "needs_review"})


class ReplayRequest(BaseModel):
    """Body of `POST /v1/dlq/{id}/replay`: why it is safe to run again is always written down."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    incident_note: Annotated[str, noted("must say why the job may run again")]
    fresh_scope: bool = False


@routes.get("/v1/dlq")
async def list_dead_letters(request: web.Request) -> web.Response:
    """Dead letters newest first; records whose tenant is unknown only without `tenant_id`."""
    wanted = page_wanted(request, "tenant_id")
    letters, after = await request.app[PARTS].ask(
        lambda db: queries.dead_letters_page(
            db, wanted.filters["tenant_id"], wanted.limit, wanted.cursor
        )
    )
    return list_answer("dead_letters", [dead_letter_json(each) for each in letters], after)


@routes.get("/v1/dlq/{id}")
async def get_dead_letter(request: web.Request) -> web.Response:
    """A dead letter with its job, or with the bytes of its record."""
    parts, id_ = request.app[PARTS], request.match_info["id"]
    letter = await parts.ask(lambda db: queries.dead_letter(db, id_))
    if letter is None:
        raise _unknown(id_)
    if letter.kind == "record":
        return web.json_response(dead_letter_json(letter) | dead_record_json(letter))
    job = await parts.ask(lambda db: queries.shown_job(db, id_))
    return web.json_response(dead_letter_json(letter) | {"job": job})


@routes.post("/v1/dlq/{id}/replay")
async def replay(request: web.Request) -> web.Response:
    """Run a dead job, or one that needs review, again as a new job."""
    parts, id_ = request.app[PARTS], request.match_info["id"]
    wanted = await read_body(request, ReplayRequest)
    key = idempotency_key(request)
    job = await _replayable(parts, id_)
    await refuse_erased(parts, job.tenant_id)
    new_id = ids.replay_job_id(job.tenant_id, id_, key)
    body = Replay(id_, wanted.incident_note, wanted.fresh_scope, SUBMITTED_BY)
    earlier = await parts.ask(lambda db: queries.job(db, new_id))
    if earlier is None:
        await parts.command(job.tenant_id, new_id, body)
    made = await parts.once(("jobs", (new_id,)), lambda db: _shown(db, new_id))
    if made is None:
        pending = pending_replay(job, new_id, body, now_ms())
        return web.json_response(job_json(pending, Around()), status=202)
    require_same(made[0], wanted)
    return web.json_response(made[1], status=202)


def require_same(made: Job, wanted: ReplayRequest) -> None:
    """Refuse a key whose replay was asked for with another body.

    Raises:
        Refusal: 409.
    """
    # Only a fresh scope is named after the replay itself.
    fresh = ids.scope_owner(made.scope) == made.job_id
    if (made.replay_note, fresh) == (wanted.incident_note, wanted.fresh_scope):
        return
    other = "fresh_scope" if made.replay_note == wanted.incident_note else "note"
    raise Refusal(
        409,
        "key-reused",
        f"this key belongs to replay {made.job_id}, made with another {other}: "
        "send the same body, or a new key",
        job_id=made.job_id,
    )


def _shown(connection: sqlite3.Connection, job_id: str) -> tuple[Job, Json] | None:
    found = queries.job(connection, job_id)
    return None if found is None else (found, job_json(found, queries.around(connection, found)))


async def _replayable(parts: Parts, id_: str) -> Job:
    def found(connection: sqlite3.Connection) -> tuple[DeadLetter | None, Job | None]:
        return queries.dead_letter(connection, id_), queries.job(connection, id_)

    letter, job = await parts.ask(found)
    if letter is None and job is None:
        raise _unknown(id_)
    if letter is not None and letter.kind == "record":
        raise Refusal(409, "not-replayable", f"{id_} is a record that {letter.stage} could not "
                      "process: replaying records is not possible yet, only jobs")  # fmt: skip
    if job is None:
        raise Refusal(409, "job-purged", f"job {id_} was purged, and its effects with it: submit "
                      "a new one")  # fmt: skip
    if job.status not in _REPLAYABLE:
        raise Refusal(409, "not-replayable", f"job {id_} is {job.status}: only "
                      f"{', '.join(sorted(_REPLAYABLE))} jobs are replayed")  # fmt: skip
    return job


def _unknown(id_: str) -> Refusal:
    return unknown("dead letter", id_, "see GET /v1/dlq for those there are")

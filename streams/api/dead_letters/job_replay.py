"""Replays a job as a new one, or says what prevents it.

The dispatcher decides. This module asks it, and adds to a refusal what a person needs to see: the
earlier replays, the effects to name, the job in the way.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from streams.api.dead_letters import letters
from streams.api.dead_letters import table as dead_letters
from streams.api.dead_letters.eligibility import by_hand
from streams.api.dead_letters.replay_request import ReplayRequest
from streams.api.decisions import Decision, decision
from streams.api.effects.table import begun_effects, effect_json
from streams.api.job_types.input_check import refuse_misfit
from streams.api.jobs import table as jobs
from streams.api.jobs.replays import replays
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, all_invalid, key_reused, unknown
from streams.api.remedy import get
from streams.api.rows.json_values import Json
from streams.api.tenants.guards import refuse_erased
from streams.serde import ids
from streams.serde.effect_scopes import is_shared
from streams.serde.records import DeadLetter, Job, Replay
from streams.topology.model import Topology
from streams.tracing.conventions import REPLAY_OF
from streams.tracing.spans import link_to

LETTERS = get("dlq")


@dataclass(frozen=True, slots=True)
class JobReplay:
    """A requested replay of the job `id`; repeating it with the same `key` gives the same job."""

    id: str
    wanted: ReplayRequest
    key: str | None

    def command(self, by: str) -> Replay:
        wanted = self.wanted
        return Replay(
            self.id,
            wanted.incident_note,
            wanted.fresh_scope,
            by,
            wanted.again,
            tuple(wanted.repeat_effects),
            wanted.type,
            wanted.input_text(),
        )


@dataclass(frozen=True, slots=True)
class Requested:
    """A replay whose command is durable."""

    asked: JobReplay
    job: Job
    new_id: str
    command_id: str

    @property
    def id(self) -> str:
        return self.asked.id


async def replayed(state: AppState, asked: JobReplay) -> Json:
    """Return the new job, or what is known of it if the dispatcher is late.

    Raises:
        Refusal: 404 or 409, it cannot be replayed; 503, the read model has not caught up.
        KafkaUnavailable: it was not acknowledged; it may still be written.
    """
    sent = await requested(state, asked)
    told = await made(state, sent, "jobs")
    found = await state.query(lambda db: _shown(db, sent.new_id, state.topology))
    if found is None:
        about = {"job_id": sent.new_id, "tenant_id": sent.job.tenant_id, "replay_of": asked.id}
        return about | told.json()
    require_same(found[0], asked.wanted)
    return found[1]


async def requested(state: AppState, asked: JobReplay) -> Requested:
    """Send the command; raises what `replayed` raises."""
    job = await known_job(state, asked.id)
    await refuse_erased(state, job.tenant_id)
    await _refuse_by_hand(state, asked)
    await _refuse_unbegun(state, asked, job)
    new_id = ids.replay_job_id(job.tenant_id, asked.id, asked.key)
    link_to(job.traceparent, REPLAY_OF)
    command = asked.command(state.principal.id)
    if command.input is not None:
        await refuse_misfit(state, command.type or job.type, command.input)
    return Requested(asked, job, new_id, await state.command(job.tenant_id, new_id, command))


async def made(state: AppState, sent: Requested, *topics: str) -> Decision:
    """Wait for the decision about a requested replay; raises what `replayed` raises."""
    try:
        return await decision(state, sent.job.tenant_id, sent.command_id, *topics)
    except Refusal as refusal:
        refusal.extra.update(await _details(state, sent, refusal.name))
        raise


def require_same(made: Job, wanted: ReplayRequest) -> None:
    """Refuse a key under which the replay was requested with another body: 409."""
    # Only a fresh scope has the name of the replay itself.
    fresh = made.scope.startswith(f"{made.job_id}.")
    if made.replay_note != wanted.incident_note:
        raise _key_reused(made.job_id, "note")
    if fresh != wanted.fresh_scope:
        raise _key_reused(made.job_id, "fresh_scope")
    if wanted.type not in (None, made.type):
        raise _key_reused(made.job_id, "type")
    if wanted.input_text() not in (None, made.input):
        raise _key_reused(made.job_id, "input")


def _key_reused(job_id: str, what: str) -> Refusal:
    return key_reused(job_id, f"replay {job_id}, made with another {what}")


async def known_job(state: AppState, id_: str) -> Job:
    """Return the job behind a dead letter, or one in review; refuse with 404 or 409 without one."""

    def found(connection: sqlite3.Connection) -> tuple[DeadLetter | None, Job | None]:
        return dead_letters.dead_letter(connection, id_), jobs.job(connection, id_)

    letter, job = await state.query(found)
    if letter is not None and job is None:
        # The two stand on two topics, and the read model may be behind on that of the jobs.
        await state.read_barrier(("jobs", state.home(letter.tenant_id)))
        _, job = await state.query(found)
    if letter is None and job is None:
        raise unknown_letter(id_)
    if job is None:
        raise Refusal(
            409, "job-purged", f"job {id_} was purged, and its effects with it: submit a new one"
        )
    return job


def unknown_letter(id_: str) -> Refusal:
    return unknown("dead letter", id_, f"{LETTERS} lists them", LETTERS)


async def _details(state: AppState, sent: Requested, reason: str) -> Json:
    """Return what a person needs to see of a refusal."""
    job = sent.job
    match reason:
        case "already-replayed":
            earlier = await state.query(lambda db: replays(db, job.tenant_id, job.job_id))
            return {"replays": earlier}
        case "effects-done":
            named = sent.asked.wanted.repeat_effects
            begun = await state.query(lambda db: begun_effects(db, job))
            return {"effects": [effect_json(e) for e in begun if e.action not in named]}
        case "scope-in-use":
            other = await state.query(lambda db: jobs.sharing(db, job))
            return {} if other is None else {"job_id": other.job_id}
    return {}


async def _refuse_by_hand(state: AppState, asked: JobReplay) -> None:
    """Refuse with 409 what a person does by hand, or has done."""
    for kept in await letters.current(state, [asked.id]):
        reason = by_hand(kept.letter, asked.wanted.again)
        if reason is not None:
            raise Refusal(409, reason.name, reason.detail)


async def _refuse_unbegun(state: AppState, asked: JobReplay, job: Job) -> None:
    """Refuse with 422 to repeat effects that the job has not begun: a name may be misspelt."""
    named = set(asked.wanted.repeat_effects)
    if not named:
        return
    await state.read_barrier(("ledger", state.home(job.tenant_id)))
    begun = await state.query(lambda db: begun_effects(db, job))
    if unknown_ones := sorted(named - {entry.action for entry in begun}):
        raise all_invalid([("repeat_effects", _not_repeated(job, each)) for each in unknown_ones])


def _not_repeated(job: Job, action: str) -> str:
    if is_shared(action):
        return f"{action} counts beyond {job.job_id}: a fresh scope does not begin it again"
    return f"{job.job_id} has not begun {action}"


def _shown(
    connection: sqlite3.Connection, job_id: str, topology: Topology
) -> tuple[Job, Json] | None:
    found = jobs.job(connection, job_id)
    return None if found is None else (found, jobs.whole_job(connection, found, topology))

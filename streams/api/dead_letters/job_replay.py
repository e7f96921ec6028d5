"""Replays a job as a new one, or says what prevents it.

This module checks a replay before anything is written, so that the person learns the reason. The
dispatcher checks it again in the transaction that makes the job, and this module answers with its
refusals, too.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from streams.api.command_results import command_result, letter_ids, outstanding
from streams.api.dead_letters import table as dead_letters
from streams.api.dead_letters.replay_request import ReplayRequest
from streams.api.effects.table import begun_effects, effect_json
from streams.api.jobs import table as jobs
from streams.api.jobs.replays import replays
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, all_invalid, key_reused, unknown
from streams.api.remedy import get
from streams.api.rows.json_values import Json
from streams.api.sent_commands import SentCommand, Subject
from streams.api.tenants.guards import refuse_erased
from streams.new_jobs import from_replay
from streams.process.wall_clock import wall_ms
from streams.serde import ids
from streams.serde.effect_scopes import is_shared
from streams.serde.job_states import REPLAYABLE
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

    @property
    def subject(self) -> Subject:
        return "replay", self.id

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
        )


@dataclass(frozen=True, slots=True)
class Requested:
    """A replay whose command is durable; `letters` are the ids that its dead letter can have."""

    asked: JobReplay
    job: Job
    new_id: str
    letters: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.asked.id


async def replayed(state: AppState, asked: JobReplay) -> Json:
    """Return the new job, as it is shown or as it will first appear.

    Raises:
        Refusal: 404 or 409, it cannot be replayed; 503, the read model has not caught up.
        KafkaUnavailable: it was not acknowledged; it may still be written.
    """
    return await made(state, await requested(state, asked))


async def requested(state: AppState, asked: JobReplay, *, dry_run: bool = False) -> Requested:
    """Send the command, unless the new job exists; with `dry_run` only check it.

    Raises what `replayed` raises.
    """
    async with state.sent_commands.lock(asked.subject):
        job = await _known(state, asked.id)
        await refuse_erased(state, job.tenant_id)
        new_id = ids.replay_job_id(job.tenant_id, asked.id, asked.key)
        is_new = await _judge(state, asked, job, new_id)
        letters = await _send(state, asked, job, new_id) if is_new and not dry_run else ()
    return Requested(asked, job, new_id, letters)


async def made(state: AppState, sent: Requested) -> Json:
    """Return the new job of a requested replay; raises what `replayed` raises."""
    asked, new_id = sent.asked, sent.new_id
    found = await command_result(
        state, sent.letters, ("jobs", (new_id,)), lambda db: _shown(db, new_id, state.topology)
    )
    if found is None:
        now = wall_ms()
        pending = from_replay(
            new_id, asked.command(state.principal.id), sent.job, state.topology, at=now, now=now
        )
        return jobs.unread_job(pending)
    state.sent_commands.shown(asked.subject, new_id)
    require_same(found[0], asked.wanted)
    return found[1]


async def _judge(state: AppState, asked: JobReplay, job: Job, new_id: str) -> bool:
    """Return whether the new job has to be made; False if it exists.

    Raises:
        Refusal: 409, the job cannot be replayed.
    """

    async def is_there() -> bool:
        return await state.query(lambda db: jobs.job(db, new_id)) is not None

    # The replay of a job in review ends that job; a repeated call must return the same replay.
    if await is_there():
        return False
    _refuse_unreplayable(job)
    home = state.home(job.tenant_id)
    await state.read_barrier(("jobs", home), ("ledger", home))
    if await is_there():  # Another process sent it under the same key.
        return False
    await _refuse_clashes(state, asked, job, new_id)
    return True


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


def _key_reused(job_id: str, what: str) -> Refusal:
    return key_reused(job_id, f"replay {job_id}, made with another {what}")


async def _known(state: AppState, id_: str) -> Job:
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


def _refuse_unreplayable(job: Job) -> None:
    if job.status not in REPLAYABLE:
        raise Refusal(
            409,
            "not-replayable",
            f"job {job.job_id} is {job.status}: only "
            f"{', '.join(sorted(REPLAYABLE))} jobs are replayed",
        )


def unknown_letter(id_: str) -> Refusal:
    return unknown("dead letter", id_, f"{LETTERS} lists them", LETTERS)


async def _refuse_clashes(state: AppState, asked: JobReplay, job: Job, new_id: str) -> None:
    """Check that the job was not replayed, shares no scope, and repeats no unnamed effect.

    Raises:
        Refusal: 409; 422 if the call names effects that the job has not begun.
    """
    await _refuse_second(state, asked, job, new_id)
    if asked.wanted.fresh_scope:
        await _refuse_unnamed_effects(state, asked, job)
    elif (other := await state.query(lambda db: jobs.sharing(db, job))) is not None:
        raise Refusal(
            409,
            "scope-in-use",
            f"job {other.job_id} is {other.status} and shares the effects of "
            f"{job.job_id}: wait for its end, or cancel it",
            job_id=other.job_id,
        )


async def _refuse_second(state: AppState, asked: JobReplay, job: Job, new_id: str) -> None:
    earlier = await outstanding(state, asked.subject)
    if earlier is not None and earlier.job_id == new_id and earlier.digest != asked.wanted.digest():
        raise _key_reused(new_id, "body")
    if asked.wanted.again or (earlier is not None and earlier.job_id == new_id):
        return
    made = await state.query(lambda db: replays(db, job.tenant_id, job.job_id))
    named = {each["job_id"]: f"{each['job_id']} ({each['status']})" for each in made}
    for id_ in (job.replayed_as, earlier.job_id if earlier else None):
        if id_ is not None and id_ not in named:
            named[id_] = id_
    if named:
        raise Refusal(
            409,
            "already-replayed",
            f"job {job.job_id} was replayed before, as "
            f"{', '.join(named.values())}: to replay it once more, call again with `again` "
            "(`--again`)",
            replays=made,
        )


async def _refuse_unnamed_effects(state: AppState, asked: JobReplay, job: Job) -> None:
    begun = await state.query(lambda db: begun_effects(db, job))
    named, known = set(asked.wanted.repeat_effects), {entry.action for entry in begun}
    if unknown_ones := sorted(named - known):
        raise all_invalid([("repeat_effects", _not_repeated(job, each)) for each in unknown_ones])
    unnamed = [entry for entry in begun if entry.action not in named]
    if unnamed:
        told = ", ".join(f"{entry.action} ({entry.status})" for entry in unnamed)
        raise Refusal(
            409,
            "effects-done",
            f"a fresh scope repeats effects that (may) have happened: {told}; "
            "replay without it, or name each in `repeat_effects` (`--repeat-effect`)",
            effects=[effect_json(entry) for entry in unnamed],
        )


def _not_repeated(job: Job, action: str) -> str:
    if is_shared(action):
        return f"{action} counts beyond {job.job_id}: a fresh scope does not begin it again"
    return f"{job.job_id} has not begun {action}"


async def _send(state: AppState, asked: JobReplay, job: Job, new_id: str) -> tuple[str, ...]:
    link_to(job.traceparent, REPLAY_OF)
    offset = await state.command(job.tenant_id, new_id, asked.command(state.principal.id))
    told = letter_ids(state, job.tenant_id, offset)
    state.sent_commands.remember(asked.subject, SentCommand(new_id, asked.wanted.digest(), 0, told))
    return told


def _shown(
    connection: sqlite3.Connection, job_id: str, topology: Topology
) -> tuple[Job, Json] | None:
    found = jobs.job(connection, job_id)
    return None if found is None else (found, jobs.whole_job(connection, found, topology))

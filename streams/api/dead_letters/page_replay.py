"""Replays a page of dead letters: each once, all with the same note.

A letter that cannot be replayed is left out with its reason, and hinders no other. If a call ends
half-way, the next one selects what is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from streams.api.dead_letters import to_replay as letters_to_replay
from streams.api.dead_letters.eligibility import Unfit, unfit
from streams.api.dead_letters.job_replay import JobReplay, Requested, known_job, made, requested
from streams.api.dead_letters.record_replay import replay_records
from streams.api.dead_letters.replay_request import BulkReplayRequest, ReplayRequest
from streams.api.dead_letters.to_replay import DeadJob, LetterPage
from streams.api.jobs import table as jobs
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.api.rows.cursor import Cursor
from streams.api.rows.json_values import Json
from streams.api.tenants.guards import refuse_erased
from streams.serde.job_states import REPLAYABLE

T = TypeVar("T")

_AT_ONCE = 50
"""So many jobs are asked for at the same time."""
LeftOut = tuple[tuple[str, Unfit], ...]
"""Ids of letters, and why they are not replayed."""


@dataclass(frozen=True, slots=True)
class PageReplay:
    """How many jobs and records of a page were replayed (or could be), and what was left out."""

    jobs: int
    records: int
    left_out: LeftOut


async def replay_selected(
    state: AppState, wanted: BulkReplayRequest, cursor: Cursor | None
) -> Json:
    """Replay a page of the letters that are asked for, or with `dry_run` tell what it would do.

    Jobs are replayed oldest first, and records in the order of their offsets. Raises what
    `replay_page` raises.
    """
    found = await state.query(
        lambda db: letters_to_replay.selected(db, wanted.filters(), wanted.limit, cursor)
    )
    act = judge_page if wanted.dry_run else replay_page
    done = await act(state, found, wanted.incident_note)
    return {
        "dry_run": wanted.dry_run,
        **found.matched.json(),
        "replayed": 0 if wanted.dry_run else done.jobs + done.records,
        "replayable": done.jobs + done.records,
        "jobs": done.jobs,
        "records": done.records,
        "left_out": [{"id": i, "reason": w.name, "detail": w.detail} for i, w in done.left_out],
        "next_cursor": None if found.next is None else str(found.next),
    }


async def replay_page(state: AppState, page: LetterPage, note: str) -> PageReplay:
    """Replay the letters of a page; return once the stages have decided, or are late.

    Raises:
        Refusal: 503, the read model is late: call again.
        KafkaUnavailable: Kafka does not answer: call again.
    """
    asked = [_replay(job, note) for job in page.jobs]
    sent, unsent = await _sorted(asked, lambda each: requested(state, each), _AT_ONCE)
    _, refused = await _sorted(sent, lambda each: made(state, each), len(sent))
    done = await replay_records(state, page.records, note)
    left_out = (*unsent, *refused, *done.left_out)
    return PageReplay(len(sent) - len(refused), len(done.sent), left_out)


async def judge_page(state: AppState, page: LetterPage, note: str) -> PageReplay:
    """Return what `replay_page` would probably do; raises what it raises.

    Of jobs, the dispatcher alone knows: this goes by what the read model shows.
    """
    asked = [_replay(job, note) for job in page.jobs]
    fit, left_out = await _sorted(asked, lambda each: _expected(state, each), _AT_ONCE)
    unfit_records = await _unfit(state, page.records)
    fit_records = len(page.records) - len(unfit_records)
    return PageReplay(len(fit), fit_records, left_out + unfit_records)


async def _expected(state: AppState, asked: JobReplay) -> None:
    """Refuse what the dispatcher would refuse, as far as the read model shows it."""
    job = await known_job(state, asked.id)
    await refuse_erased(state, job.tenant_id)
    other = await state.query(lambda db: jobs.sharing(db, job))
    if job.status not in REPLAYABLE:
        raise Refusal(409, "not-replayable", f"job {job.job_id} is {job.status}")
    if job.replayed_as is not None:
        told = f"job {job.job_id} was replayed as {job.replayed_as}"
        raise Refusal(409, "already-replayed", told)
    if other is not None:
        told = f"job {other.job_id} is {other.status} and works in the scope of {job.job_id}"
        raise Refusal(409, "scope-in-use", told)


def _replay(job: DeadJob, note: str) -> JobReplay:
    """Return the replay of a job's present end: asked for again, it makes the same new job."""
    return JobReplay(job.id, ReplayRequest(incident_note=note), f"dlq:{job.at}")


async def _unfit(state: AppState, ids: Sequence[str]) -> LeftOut:
    kept = await state.query(lambda db: letters_to_replay.letters(db, ids))
    judged = [(each.letter.id, unfit(each.letter, state.topology, False)) for each in kept]
    return tuple((id_, reason) for id_, reason in judged if reason is not None)


async def _sorted(
    asked: Sequence[JobReplay | Requested], act: Callable[..., Awaitable[T]], at_once: int
) -> tuple[list[T], LeftOut]:
    """Act on each, some at once; return the results, and what was refused for good."""
    done, left_out = list[T](), list[tuple[str, Unfit]]()
    for start in range(0, len(asked), max(at_once, 1)):
        part = asked[start : start + at_once]
        results = await asyncio.gather(*map(act, part), return_exceptions=True)
        for each, result in zip(part, results, strict=True):
            if isinstance(result, Refusal) and result.status < 500:
                left_out.append((each.id, Unfit(result.name, result.detail)))
            elif isinstance(result, BaseException):
                raise result
            else:
                done.append(result)
    return done, tuple(left_out)

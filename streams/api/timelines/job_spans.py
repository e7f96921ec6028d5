"""The spans of one job: itself, its queueing, runs, steps, waits, effects and deliveries."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from streams.api.effects.table import effects_of
from streams.api.jobs.open_waits import told
from streams.api.rows.json_values import trace_id
from streams.api.steps.table import Finished, finished
from streams.api.timelines.delivery_spans import delivery_spans, of_job
from streams.api.timelines.runs import Gap, Run, gaps_of, runs_of
from streams.api.timelines.span import Span, SpanKind, link
from streams.serde import effect_states, job_states, run_ends
from streams.serde.effect_scopes import full_action, is_shared
from streams.serde.records import Job, LedgerEntry
from streams.serde.step_ids import shown_id

_WELL = {run_ends.SUCCEEDED, run_ends.PARKED, run_ends.RELEASED, job_states.RUNNING}
_STOPPED = {run_ends.CANCELLED}
_SETTLED = {effect_states.DONE, effect_states.FAILED}
_FAILED_JOB = job_states.IN_DEAD_LETTERS | job_states.FOR_A_PERSON


@dataclass(frozen=True, slots=True)
class Member:
    """A job of a timeline: what it is there, below which span, and why it waits if known."""

    job: Job
    kind: SpanKind
    parent: str | None
    why: str | None = None


def job_spans(connection: sqlite3.Connection, member: Member) -> list[Span]:
    """Return the spans of a job in the order in which they began, itself first."""
    job, runs = member.job, runs_of(member.job)
    within = [
        *_queued(member, runs),
        *(_run(job, run) for run in runs),
        *_finished(job, runs, finished(connection, job)),
        *_open_waits(job),
        *(_effect(job, runs, each) for each in effects_of(connection, job) if _is_own(job, each)),
    ]
    trace = trace_id(job.traceparent)
    inner = [replace(span, trace_id=trace) for span in sorted(within, key=_began)]
    return [_whole(member, trace), *inner, *delivery_spans(connection, of_job(connection, job))]


def _began(span: Span) -> tuple[int, bool]:
    return span.begins, span.kind != "run"


def _whole(member: Member, trace: str | None) -> Span:
    job = member.job
    return Span(
        member.kind,
        job.type,
        job.job_id,
        member.parent,
        job.created_at,
        job.updated_at if job.status in job_states.TERMINAL else None,
        job.status,
        link("jobs", job.job_id),
        _about(job),
        failed=job.status in _FAILED_JOB,
        trace_id=trace,
    )


def _about(job: Job) -> str | None:
    """Return what people look for first at a job: why it failed, who took its place, its note."""
    if job.superseded_by is not None:
        return f"job {job.superseded_by} took its place"
    if job.status == job_states.CANCELLED:
        return job.cancel_reason
    if job.status != job_states.SUCCEEDED and job.last_error:
        return job.last_error
    return job.replay_note


def _queued(member: Member, runs: Sequence[Run]) -> Iterator[Span]:
    for gap in gaps_of(member.job, runs):
        yield _gap(member, gap)


def _gap(member: Member, gap: Gap) -> Span:
    job = member.job
    return Span(
        "queued",
        f"waits for run {gap.number}",
        f"{job.job_id}/queued/{gap.number}",
        job.job_id,
        gap.begins,
        gap.ends,
        job.status if gap.ends is None else "over",
        link("jobs", job.job_id),
        member.why if gap.ends is None else None,
    )


def _run(job: Job, run: Run) -> Span:
    return Span(
        "run",
        f"run {run.number}",
        _run_id(job, run),
        job.job_id,
        run.begins,
        run.ends,
        run.status,
        link("jobs", job.job_id),
        run.error,
        failed=run.status not in _WELL | _STOPPED,
        exact=run.exact,
    )


def _run_id(job: Job, run: Run) -> str:
    return f"{job.job_id}/run/{run.number}"


def _within(job: Job, runs: Iterable[Run], at: int) -> str:
    """Return the id of the run in which a moment is, otherwise that of the job."""
    return next((_run_id(job, run) for run in runs if run.covers(at)), job.job_id)


def _finished(job: Job, runs: Sequence[Run], left: Iterable[Finished]) -> Iterator[Span]:
    """Yield the steps and waits that are over; each began after the one before, or with its run."""
    before = job.created_at
    for each in left:
        begins = [run.begins for run in runs if before < run.begins <= each.at]
        before = max([min(before, each.at), *begins])
        kind: SpanKind = "step" if each.is_step else "wait"
        yield Span(
            kind,
            shown_id(each.name),
            f"{job.job_id}/{kind}/{each.name}",
            _within(job, runs, each.at) if each.is_step else job.job_id,
            before,
            each.at,
            "over" if each.error is None else "raised",
            link("jobs", job.job_id),
            each.error or (None if each.is_step else each.kind),
            failed=each.error is not None,
            exact=False,
        )
        before = each.at


def _open_waits(job: Job) -> Iterator[Span]:
    if job.status in job_states.TERMINAL:
        return
    for wait in job.waits:
        if wait.group < 0:
            continue  # it is only listened to
        yield Span(
            "wait",
            shown_id(wait.id),
            f"{job.job_id}/wait/{wait.id}",
            job.job_id,
            wait.at,
            None,
            job_states.WAITING,
            link("jobs", job.job_id),
            told(replace(job, waits=(wait,))),
        )


def _is_own(job: Job, entry: LedgerEntry) -> bool:
    """Whether an effect is this job's: a replay works in the scope of the job that it replays."""
    return entry.job_id == job.job_id or is_shared(entry.scope)


def _effect(job: Job, runs: Sequence[Run], entry: LedgerEntry) -> Span:
    name, begins = full_action(entry.scope, entry.action), entry.first_claimed_at
    said = entry.error or entry.note
    return Span(
        "effect",
        name,
        f"{job.job_id}/effect/{name}",
        _within(job, runs, begins),
        begins,
        entry.updated_at if entry.status in _SETTLED else None,
        entry.status,
        link("jobs", job.job_id),
        said if entry.settled_by is None else f"{entry.settled_by}: {said}",
        failed=entry.status not in (effect_states.DONE, effect_states.CLAIMED),
    )

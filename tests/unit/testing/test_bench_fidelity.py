"""The same stories on a bench and through the whole pipeline of tests/support end alike."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import orjson
import pytest
from support.whole_flow import TICKETS, Flow, Outside, flow, support

from streams.serde.codec import DEAD_LETTER, LEDGER_ENTRY
from streams.serde.ids import event_job_id
from streams.serde.records import DeadLetter, Job, LedgerEntry
from streams.testing import Bench

_OF_A_RUN = {
    "run_id",
    "worker_id",
    "scope",
    "payload_ref",
    "traceparent",
    "event",
    "event_time",
    "created_at",
    "updated_at",
    "ready_at",
    "began_at",
    "next_retry_at",
    "history",
    "last_error",
}
"""What has a random id or a moment in it, in each story another."""


def told(job: Job) -> dict[str, Any]:
    """A job's record without what differs from one run of a story to the next."""
    same = {f.name: getattr(job, f.name) for f in fields(Job) if f.name not in _OF_A_RUN}
    runs = [(run.attempt, run.kind, without_ids(run.error)) for run in job.history]
    return {**same, "history": runs, "last_error": without_ids(job.last_error)}


def without_ids(text: str | None) -> str | None:
    """The type of an error: its text may name a run or a worker."""
    return text and text.split()[0]


def entries(written: list[LedgerEntry]) -> dict[tuple[str, str], tuple[Any, ...]]:
    newest = {(e.job_id, e.action): (e.status, e.claims, e.result, e.digest) for e in written}
    return dict(sorted(newest.items()))


def letters(found: list[DeadLetter]) -> list[tuple[str | None, ...]]:
    return sorted((letter.id, letter.reason, letter.detail, letter.status) for letter in found)


def of_flow(at: Flow) -> dict[str, Any]:
    """What came of a story in the whole flow."""
    ledger = [LEDGER_ENTRY.decode(r.value) for r in at.driver.output("ledger") if r.value]
    return {
        "jobs": {job_id: told(job) for job_id, job in sorted(at.jobs().items())},
        "ledger": entries(ledger),
        "letters": letters([DEAD_LETTER.decode(r.value) for r in at.driver.output("dlq")]),
        "calls": dict(at.outside.calls),
    }


def of_bench(bench: Bench, outside: Outside, job_ids: set[str]) -> dict[str, Any]:
    """What came of a story on a bench."""
    output = bench._behind.pipeline.output
    ledger = [LEDGER_ENTRY.decode(r.value) for r in output("ledger") if r.value]
    newest = {job_id: bench._behind.pipeline.job_records(job_id)[-1] for job_id in sorted(job_ids)}
    return {
        "jobs": {job_id: told(job) for job_id, job in newest.items()},
        "ledger": entries(ledger),
        "letters": letters([DEAD_LETTER.decode(r.value) for r in output("dlq")]),
        "calls": dict(outside.calls),
    }


def deliver(bench: Bench, tenant: str, ticket: str, *tags: str) -> Any:
    body = orjson.dumps({"id": ticket, "tags": tags})
    return bench.event(
        "ticket.created",
        body,
        source="zendesk",
        key=ticket,
        tenant=tenant,
        job="draft_reply",
        subject=ticket,
        attributes={"subject": ticket},
    )


def comparable(story: dict[str, Any]) -> dict[str, Any]:
    """`callback_url` is of the source, which a bench has none of."""
    jobs = {job_id: {**job, "callback_url": None} for job_id, job in story["jobs"].items()}
    return {**story, "jobs": jobs}


async def test_a_day_of_events_ends_alike() -> None:
    async with flow() as at:
        await at.all_ended(*[at.deliver(*ticket) for ticket in (*TICKETS, *TICKETS)])
        expected = of_flow(at)
    outside = Outside()
    with Bench(support(outside)) as bench:
        jobs = [deliver(bench, *ticket) for ticket in (*TICKETS, *TICKETS)]
        for job in jobs:
            job.run()
        found = of_bench(bench, outside, {job.id for job in jobs})
    assert comparable(found) == comparable(expected)


@pytest.mark.parametrize(
    ("action", "tool"), [("email", "email:send"), ("refund", "payment:refund")]
)
async def test_a_crash_in_an_effect_ends_alike_with_a_key_and_without(
    action: str, tool: str
) -> None:
    job_id = event_job_id("acme", "zendesk", "1")
    async with flow() as at:
        at.outside.hold = action
        at.deliver("acme", "1", "refund")
        await at.until(lambda: at.outside.held, "the call is under way")
        await at.kill_worker()
        at.start_worker()
        await at.until(lambda: _rests(at.jobs()[job_id]), "the job rests")
        expected = of_flow(at)
    outside = Outside()
    with Bench(support(outside)) as bench:
        deliver(bench, "acme", "1", "refund").crash_in(tool, done=True).run()
        found = of_bench(bench, outside, {job_id})
    assert comparable(found) == comparable(expected)


def _rests(job: Job) -> bool:
    return job.status in ("succeeded", "needs_review")


def test_the_comparison_sees_a_difference() -> None:
    outside = Outside()
    with Bench(support(outside)) as bench:
        job = deliver(bench, "acme", "1").run()
        right = told(job.record)
    assert told(replace(job.record, attempts=2)) != right
    assert told(replace(job.record, lost=1)) != right

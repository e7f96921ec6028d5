"""The figures of a run tell the wait for a handler's slot from the time in the pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.honest_run import HonestRun, job_id, seen

from streams.demo.verdict.figures import figures
from streams.demo.verdict.judge import judge


@pytest.fixture
def run() -> HonestRun:
    """Each event is answered at 0.01 s, and its handler begins at 0.5 s."""
    made = HonestRun()
    made.jobs.clear()
    return made


def of(run: HonestRun) -> dict[str, Any]:
    evidence = run.evidence()
    return figures(evidence, judge(evidence), 1.0, None)


def lease_all(run: HonestRun, pending_ms: int | None, running_ms: int) -> None:
    (first, *_) = HonestRun().jobs
    for ticket in run.scenario.tickets:
        job = replace(first.value, job_id=job_id(ticket), tenant_id=ticket.tenant_id)
        if pending_ms is not None:
            pending = replace(job, status="pending", updated_at=pending_ms)
            run.jobs.append(seen("jobs", pending))
        run.jobs.append(seen("jobs", replace(job, status="running", updated_at=running_ms)))
        # A second run does not count: the figures are about the first.
        run.jobs.append(seen("jobs", replace(job, status="pending", updated_at=9_000)))


def test_a_job_that_waited_for_a_slot_shows_how_long(run: HonestRun) -> None:
    lease_all(run, pending_ms=1_000, running_ms=1_300)
    shown = of(run)
    assert shown["start_p50_ms"] == pytest.approx(490, abs=1)
    assert shown["queue_p50_ms"] == 300
    assert shown["pipeline_p50_ms"] == pytest.approx(190, abs=1)


def test_a_job_that_is_leased_at_once_was_in_the_pipeline_alone(run: HonestRun) -> None:
    lease_all(run, pending_ms=None, running_ms=1_300)
    shown = of(run)
    assert (shown["queue_p50_ms"], shown["pipeline_p50_ms"]) == (0, shown["start_p50_ms"])

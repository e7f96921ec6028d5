"""A worker runs jobs of the real dispatcher, whose ledger and waits judge what it says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.link_suite.real_owner import RealOwner, served
from support.link_suite.said import come
from support.link_suite.workers import WorkerUnderTest

pytestmark = pytest.mark.long


@pytest.fixture
async def owner(linked_worker: WorkerUnderTest, tmp_path: Path) -> AsyncIterator[RealOwner]:
    async with served(linked_worker, tmp_path) as found:
        yield found


async def test_a_job_is_run(owner: RealOwner) -> None:
    owner.ask("job_1", "echo", {"a": 1})
    job = await owner.ended("job_1")
    assert (job.status, json.loads(job.result or "")) == ("succeeded", {"a": 1})


async def test_effects_are_in_the_ledger(owner: RealOwner) -> None:
    owner.ask("job_1", "two_effects", {"to": "Ann"})
    job = await owner.ended("job_1")
    assert json.loads(job.result or "") == [{"call": 1}, {"call": 2}]
    newest = {entry.action: entry for entry in owner.ledger()}
    assert {a: e.status for a, e in newest.items()} == {"mail/first": "done", "mail/second": "done"}
    assert owner.tool.keys == [newest[a].idempotency_key for a in ("mail/first", "mail/second")]


async def test_a_step_and_an_effect_are_done_once_over_two_attempts(owner: RealOwner) -> None:
    owner.tool.failing = True
    owner.ask("job_1", "step_then_effect", {"name": "Ann"})
    await come(lambda: owner.tool.calls, "the first call")
    owner.tool.failing = False
    job = await owner.ended("job_1")
    assert (job.status, job.attempts) == ("succeeded", 2)
    assert len(set(owner.tool.keys)) == 1


async def test_a_job_waits_for_a_time(owner: RealOwner) -> None:
    owner.ask("job_1", "wait_time", {"seconds": 1})
    job = await owner.ended("job_1")
    assert (job.status, job.result, job.resumes) == ("succeeded", '"awake"', 1)


async def test_a_job_waits_for_an_event(owner: RealOwner) -> None:
    owner.ask("job_1", "wait_event", {"ticket": "T-1"})
    await owner.waits("job_1")
    owner.event("T-1", type_="ticket.answered", subject="T-1")
    assert (await owner.ended("job_1")).status == "succeeded"


async def test_a_job_asks_for_jobs_of_its_own(owner: RealOwner) -> None:
    owner.ask("job_1", "children", None)
    job = await owner.ended("job_1")
    assert json.loads(job.result or "") == [{"n": 1}, {"n": 2}]


async def test_a_job_is_cancelled(owner: RealOwner) -> None:
    owner.ask("job_1", "slow", {"seconds": 30})
    await come(lambda: owner.job("job_1").status in ("leased", "running"), "it runs")
    owner.cancel("job_1")
    assert (await owner.ended("job_1")).status == "cancelled"


async def test_a_job_fails(owner: RealOwner) -> None:
    owner.ask("job_1", "fails", None)
    assert (await owner.ended("job_1")).status == "failed"

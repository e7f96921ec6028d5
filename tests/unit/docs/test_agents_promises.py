"""What docs/agents.md promises, each promise by a test of its name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from streams import App, Context, PermanentError, Retry, TransientError
from streams.testing import Bench, DeadLetter, crash_points

LIMITS = """
routes:
  - match: {source: desk, event_type: "*"}
    job: agent
job_types: [{name: agent}, {name: helper}]
approvals: [{tool: "pay"}]
limits:
  - {name: per_tenant, scope: tenant, match: "*", concurrency: 2}
"""
asked: list[int] = []
"""The turns for which the model was asked."""
running: list[str] = []
"""The jobs that run now, in the order in which they began."""
at_once: list[int] = []
"""How many jobs ran at once, whenever one began."""

app = App("promises")
app.tool("mail", key_lifetime=3_600)
# pay honours no key


@app.job("agent", retry=Retry(max_attempts=3, backoff=(10, 100)), scopes={"mail", "pay"})
async def agent(ctx: Context) -> Any:
    """Three turns of a model, and a mail after each."""
    for turn in range(3):
        said = await ctx.step("model", ask, turn)
        await ctx.effect("mail", call, key=str(turn), text=said)
    return "done"


@app.job("helper", retry=Retry(max_attempts=3, backoff=(10, 100)), scopes={"mail"})
async def helper(ctx: Context) -> None:
    """Does what its input says."""
    wish = ctx.input
    running.append(ctx.job_id)
    at_once.append(len(running))
    try:
        await asyncio.sleep(wish.get("works", 0))
    finally:
        running.remove(ctx.job_id)
    if "asks" in wish:
        await ctx.gather([ctx.child("helper", each) for each in wish["asks"]], key="all")
    if "waits" in wish:
        await ctx.sleep(wish["waits"])
    if "uses" in wish:
        await ctx.effect(wish["uses"], call, key="1", text="hello")
    if "broken" in wish:
        raise PermanentError(wish["broken"])


@app.job("payer")
async def payer(ctx: Context) -> Any:
    """Asks for 10, and then pays what its input says."""
    await ctx.approval(
        "pay", prompt="Pay?", effects=[{"tool": "pay", "key": "1", "arguments": {"text": "10"}}]
    )
    await ctx.effect("pay", call, key="1", text=ctx.input["pays"])


@app.job("sneaky")
async def sneaky(ctx: Context) -> Any:
    """Pays, and asks nobody."""
    await ctx.effect("pay", call, key="1", text="10")


def ask(turn: int) -> str:
    asked.append(turn)
    return f"turn {turn}"


async def call(text: str, idempotency_key: str) -> dict[str, str]:
    return {"did": text}


@contextmanager
def bench_of(**options: Any) -> Iterator[Bench]:
    for seen in (asked, running, at_once):
        seen.clear()
    with Bench(app, strict=True, **options) as bench:
        bench.fake("mail", returns={})
        bench.fake("pay", returns={})
        yield bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    with bench_of() as bench:
        yield bench


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Bench]:
    (tmp_path / "limits.yaml").write_text(LIMITS)
    with bench_of(topology=tmp_path / "limits.yaml") as bench:
        yield bench


def test_wherever_a_worker_dies_no_finished_call_is_made_again() -> None:
    for crash in crash_points():
        with bench_of(crash=crash) as bench:
            job = bench.submit("agent").run()
            assert job.result == "done"
            assert [call.key for call in bench.happened] == ["0", "1", "2"]
            assert len(asked) <= 3 + crash.has_happened


def test_an_event_that_is_delivered_again_is_the_same_job(limited: Bench) -> None:
    jobs = {limited.event("task", {"id": 1}, source="desk", key="1") for _ in range(3)}
    assert [job.run().status for job in jobs] == ["succeeded"]
    assert len(limited.calls) == 3


def test_retries_stop_at_the_last_attempt(bench: Bench) -> None:
    bench.fake("mail", raises=TransientError("down"))
    job = bench.submit("agent").run()
    assert (job.status, job.attempts, len(bench.calls)) == ("dead", 3, 3)
    bench.advance(7 * 86_400)
    assert len(bench.calls) == 3


def test_a_call_whose_outcome_nobody_knows_is_not_tried_again(bench: Bench) -> None:
    bench.fake("pay", raises=TimeoutError())
    job = bench.submit("payer", {"pays": "10"}).run().approve("pay").run()
    assert (job.status, len(bench.calls)) == ("needs_review", 1)
    bench.advance(7 * 86_400)
    assert (job.status, len(bench.calls)) == ("needs_review", 1)


def test_no_more_jobs_of_a_tenant_run_at_once_than_its_cap_says(limited: Bench) -> None:
    jobs = [limited.submit("helper", {"works": 5}) for _ in range(7)]
    assert {job.run().status for job in jobs} == {"succeeded"}
    assert max(at_once) == 2


def test_a_job_that_waits_holds_no_slot(limited: Bench) -> None:
    waiting = [limited.submit("helper", {"waits": 3_600}).run() for _ in range(5)]
    assert {job.status for job in waiting} == {"waiting"}
    assert limited.submit("helper", {}).run().status == "succeeded"
    assert limited.seconds < 60


def test_an_urgent_job_goes_before_those_that_wait(limited: Bench) -> None:
    jobs = [limited.submit("helper", {"works": 60}, priority="batch") for _ in range(20)]
    urgent = limited.submit("helper", {"works": 60}, priority="interactive").run()
    done = [job for job in jobs if job.status == "succeeded"]
    assert urgent.status == "succeeded"
    assert len(done) <= 4, "two that ran when it came, and two that ran beside it"


def test_what_failed_is_in_the_dead_letters_and_can_be_replayed(bench: Bench) -> None:
    job = bench.submit("helper", {"uses": "mail", "broken": "no such customer"}).run()
    assert (job.status, job.error) == ("failed", "PermanentError: no such customer")
    assert job.dead_letter == DeadLetter("permanent_error")
    again = job.replay(note="the customer is there now").run()
    assert (again.status, len(bench.calls)) == ("failed", 1), "the mail is not sent again"


def test_a_job_leads_from_its_event_to_each_call_and_back(limited: Bench) -> None:
    job = limited.event("task", {"id": 1}, source="desk", key="1").run()
    assert job.record.event is not None
    assert job.record.event.dedup_key == "1"
    assert [call.job_id for call in limited.calls] == [job.id] * 3
    assert [effect.idempotency_key for effect in job.effects] == [
        call.idempotency_key for call in limited.calls
    ]


def test_jobs_that_a_job_asked_for_name_it_and_are_in_its_trace(bench: Bench) -> None:
    job = bench.submit("helper", {"asks": [{"uses": "mail"}, {}]}).run()
    for child in job.children:
        assert child.record.parent is not None
        assert child.record.parent.job_id == job.id
        assert child.record.workflow_id == job.record.workflow_id
        assert _trace_id(child.record.traceparent) == _trace_id(job.record.traceparent)


def _trace_id(traceparent: str | None) -> str:
    return (traceparent or "").split("-")[1]


def test_a_tool_outside_the_scopes_is_refused_when_it_is_called(bench: Bench) -> None:
    job = bench.submit("helper", {"uses": "pay"}).run()
    assert (job.status, bench.calls) == ("failed", [])
    assert "may not use 'pay'" in (job.error or "")


def test_an_approval_is_of_the_arguments_that_were_shown(bench: Bench) -> None:
    job = bench.submit("payer", {"pays": "1000"}).run().approve("pay").run()
    assert (job.status, bench.calls) == ("failed", [])
    job = bench.submit("payer", {"pays": "10"}).run().approve("pay").run()
    assert (job.status, [call.args["text"] for call in bench.calls]) == ("succeeded", ["10"])


def test_a_rule_of_the_topology_holds_for_handlers_that_ask_nobody(limited: Bench) -> None:
    job = limited.submit("sneaky").run()
    assert (job.status, job.waits, limited.calls) == ("waiting", ["pay/1"], [])


def test_a_cancel_ends_an_agent_and_the_jobs_that_it_asked_for(bench: Bench) -> None:
    job = bench.submit("helper", {"asks": [{"waits": 60, "uses": "mail"}] * 3}).run()
    job.cancel("not needed any more")
    bench.advance(120)
    assert {each.status for each in (job, *job.children)} == {"cancelled"}
    assert bench.calls == []

"""Drafts: whatever is lost, an effect runs once, with exactly the arguments that were approved."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from streams import App, ApprovalRejected, Context
from streams.testing import Bench, crash_points

app = App("desk")
app.tool("pay:refund", key_lifetime=86_400)
TOPOLOGY = """
routes: []
job_types: [{name: both, draft: true}, {name: one, draft: true}, {name: other_way, draft: true}]
"""
YEAR = 366 * 86_400


def pay(amount: int, idempotency_key: str) -> int:
    return amount


@app.job("one")
async def one(ctx: Context) -> Any:
    async with ctx.branch("b"):
        return await ctx.effect("pay:refund", pay, key="1", amount=1)


@app.job("both")
async def both(ctx: Context) -> Any:
    async with asyncio.TaskGroup() as group:
        made = [
            group.create_task(ctx.effect("pay:refund", pay, key=key, amount=int(key)))
            for key in ("1", "2")
        ]
    return [task.result() for task in made]


RUNS: list[str] = []


@app.job("other_way")
async def other_way(ctx: Context) -> Any:
    """It goes another way if people reject; its second run looks for something first."""
    RUNS.append(ctx.run_id)

    async def second() -> Any:
        if len(set(RUNS)) == 2:
            await ctx.step("look", look)
        try:
            return await ctx.effect("pay:refund", pay, key="2", amount=2)
        except ApprovalRejected:
            return "another way"

    first = ctx.effect("pay:refund", pay, key="1", amount=1)
    return await asyncio.gather(first, second())


def look() -> None:
    pass


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    path = tmp_path / "topology.yaml"
    path.write_text(TOPOLOGY)
    return path


def test_a_crash_at_each_point_changes_nothing(topology: Path) -> None:
    for crash in crash_points():
        with Bench(app, topology=topology, crash=crash) as bench:
            job = bench.submit("both").run()
            job.approve("pay:refund/2").run()
            assert job.status == "waiting"
            job.approve("pay:refund/1", edit={"amount": 7}).run()
            assert job.result == [7, 2]
            assert {(c.idempotency_key, c.args["amount"]) for c in job.calls} == {
                (c.idempotency_key, c.args["amount"]) for c in job.happened
            }


def test_a_replay_asks_again_for_what_nobody_decided_in_time(topology: Path) -> None:
    with Bench(app, topology=topology) as bench:
        job = bench.submit("one").run()
        bench.advance(YEAR + 1)
        assert "not approved in time" in (job.run().error or "")
        again = job.replay().run()
        assert again.status == "waiting"
        again.approve("pay:refund/1").run()
        assert (again.result, len(job.calls), len(again.calls)) == (1, 0, 1)


def test_another_replay_finds_what_was_decided_for_the_first(topology: Path) -> None:
    with Bench(app, topology=topology) as bench:
        job = bench.submit("one").run()
        bench.advance(YEAR + 1)
        first = job.run().replay().run()
        first.approve("pay:refund/1", edit={"amount": 7}).cancel()
        second = job.replay(again=True).run()
        assert (second.status, second.result) == ("succeeded", 7)


def test_a_replay_keeps_a_rejection(topology: Path) -> None:
    with Bench(app, topology=topology) as bench:
        job = bench.submit("one").run()
        job.reject("pay:refund/1", note="no", by="ann").run()
        again = job.replay().run()
        assert (again.status, again.calls) == ("failed", [])
        assert "by ann: no" in (again.error or "")
        fresh = job.replay(fresh_scope=True, again=True).run()
        assert fresh.status == "waiting"


def test_a_rejection_while_a_run_goes_on_lets_it_go_another_way(topology: Path) -> None:
    RUNS.clear()
    with Bench(app, topology=topology) as bench:
        job = bench.submit("other_way").run()
        job.approve("pay:refund/1").pause_in(step="look")
        job.reject("pay:refund/2")
        assert job.run().result == [1, "another way"]


def test_the_call_gets_what_was_approved_whatever_the_handler_makes_of_it(topology: Path) -> None:
    async def order(order: dict[str, int], idempotency_key: str) -> int:
        return order["amount"]

    async def changes(ctx: Context) -> Any:
        asked = {"amount": 1}
        made = asyncio.create_task(ctx.effect("pay:refund", order, key="1", order=asked))
        await asyncio.sleep(0)
        asked["amount"] = 1_000
        return await made

    careless = App("careless")
    careless.job("one")(changes)
    with Bench(careless, topology=topology) as bench:
        job = bench.submit("one").run()
        assert job.approve("pay:refund/1").run().result == 1
        assert [call.args for call in job.calls] == [{"order": {"amount": 1}}]

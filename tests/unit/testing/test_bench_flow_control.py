"""Flow control in a bench: jobs that runs ask for, jobs that begin anew, and lost workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streams import App, Context
from streams.testing import Bench

TOPOLOGY = """
routes:
  - {match: {event_type: order}, job: load, batch: {size: 3, seconds: 5}}
  - {match: {event_type: account}, job: sync}
  - {match: {event_type: ask}, job: parent}
job_types:
  - {name: sync, singleton: {by: subject, keep: queue_one}, expires_after_seconds: 30}
  - {name: child, debounce: {seconds: 5}}
"""


def note(idempotency_key: str, **kwargs: Any) -> dict[str, Any]:
    return {}


def application() -> App:
    app = App("desk")

    @app.job("load")
    async def load(ctx: Context) -> list[Any]:
        found = [await ctx.json(event) for event in ctx.events]
        await ctx.effect("crm", note, key="orders", orders=found)
        return [each["n"] for each in found]

    @app.job("sync")
    async def sync(ctx: Context) -> int:
        rounds = (ctx.input or {}).get("rounds", 0)
        await ctx.effect("crm", note, key="account")
        await ctx.sleep(40)
        if rounds < 2:
            ctx.continue_as_new({"rounds": rounds + 1})
        return int(rounds)

    @app.job("child")
    async def child(ctx: Context) -> str:
        return str(ctx.input)

    @app.job("parent")
    async def parent(ctx: Context) -> Any:
        return await ctx.gather([ctx.child("child", n, key=str(n)) for n in range(3)], key="all")

    return app


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    path = tmp_path / "topology.yaml"
    path.write_text(TOPOLOGY)
    return path


def test_a_batch_reads_every_body_also_after_its_worker_is_lost(topology: Path) -> None:
    with Bench(application(), topology=topology) as bench:
        orders = [bench.event("order", {"n": n}) for n in range(3)]
        orders[0].crash_in("crm", done=True)
        assert orders[0].run().status in ("succeeded", "needs_review")
        assert bench.calls[0].args["orders"] == [{"n": n} for n in range(3)]
        assert {job.superseded_by for job in orders[1:]} == {orders[0].id}
        assert len(orders[0].event_ids) == 3
        assert {job.event_ids[0] for job in orders} == set(orders[0].event_ids)


def test_the_jobs_that_a_run_asks_for_are_left_alone(topology: Path) -> None:
    with Bench(application(), topology=topology) as bench:
        assert bench.event("ask", {}).run().result == ["0", "1", "2"]


def test_a_job_that_begins_anew_keeps_its_place_and_has_no_new_deadline(topology: Path) -> None:
    with Bench(application(), topology=topology) as bench:
        first = bench.event("account", {"n": 1}, subject="a")
        bench.advance(1)
        second = bench.event("account", {"n": 2}, subject="a")
        bench.advance(60)
        assert (first.status, first.record.continuations) == ("waiting", 1)
        assert (second.status, second.record.end_reason) == ("cancelled", "expired")
        third = bench.event("account", {"n": 3}, subject="a")
        bench.advance(25)
        assert third.status == "scheduled"
        bench.advance(40)
        assert first.status == "succeeded"
        assert first.result == 2

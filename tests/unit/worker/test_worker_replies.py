"""Replies that come before or after the lease that they are for, and heartbeats until the end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from support.worker_bench import bench

from streams import App, Context
from streams.serde.records import Command, Ended, HeldLease
from streams.worker.link import replies


def waiting_app() -> tuple[App, asyncio.Event, list[str]]:
    """Its handlers note that they began and wait for the event."""
    app, go_on, begun = App("test"), asyncio.Event(), []

    @app.job("job")
    async def handler(ctx: Context) -> None:
        begun.append(ctx.job_id)
        await go_on.wait()

    return app, go_on, begun


@pytest.mark.parametrize(("kind", "status"), [("cancel", "cancelled"), ("lost", None)])
async def test_a_reply_that_overtakes_its_lease_is_kept_for_it(
    kind: str, status: str | None
) -> None:
    app, go_on, begun = waiting_app()
    async with bench(app) as at:
        go_on.set()
        at.reply(replace(at.blank(), job_id="job_1", epoch=7), kind, message="not needed")
        at.give(job_id="job_1", epoch=7)
        at.give(job_id="job_1", epoch=8)
        await at.until(lambda: begun, "the later lease runs")
        await at.idle()
        said = {c.epoch: c.body for _, c in at.commands() if c.job_id == "job_1"}
        earlier, later = said.get(7), said[8]
        assert isinstance(later, Ended)
        assert later.status == "succeeded"
        assert (isinstance(earlier, Ended) and earlier.status) == (status or False)
        assert at.worker.held_leases.free() == 20
    assert begun == ["job_1"]


async def test_a_cancel_that_came_after_its_run_ends_no_run_of_a_later_job() -> None:
    """A job that is purged and asked for again has the same id, and begins with the same epoch."""
    app, go_on, begun = waiting_app()
    async with bench(app) as at:
        go_on.set()
        over = replace(at.blank(), job_id="job_1", epoch=1)
        at.reply(over, "cancel", message="not needed", run_id="job_1.1.before")
        later = at.give(job_id="job_1", epoch=1)
        assert (await at.ended(later)).status == "succeeded"
    assert begun == ["job_1"]


async def test_replies_to_leases_that_never_come_are_not_kept_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replies, "_REMEMBERED", 3)
    app, _, _ = waiting_app()
    async with bench(app) as at:
        for epoch in range(9):
            at.reply(replace(at.blank(), job_id="job_1", epoch=epoch), "lost")
        await asyncio.sleep(0)
        assert list(at.worker._replies._early) == [("job_1", 6), ("job_1", 7), ("job_1", 8)]


async def test_heartbeats_list_the_leases_of_their_partition_until_the_end_is_known() -> None:
    app, go_on, _ = waiting_app()
    async with bench(app) as at:
        here, there = at.give(home_partition=0), at.give(home_partition=1)
        at.worker.link.beat()
        assert listed(at.heartbeats(0)) == (HeldLease(here.job_id, 1, False),)
        assert listed(at.heartbeats(1)) == (HeldLease(there.job_id, 1, False),)
        assert listed(at.heartbeats(2)) == ()
        go_on.set()
        await at.ended(here)
        await at.ended(there)
        await at.idle()
        told = len(at.heartbeats(0))
        at.worker.link.beat()
        assert len(at.heartbeats(0)) == told
        assert len(at.bodies(Ended)) == 2


def listed(heartbeats: list[Command]) -> tuple[HeldLease, ...]:
    body: Any = heartbeats[-1].body
    return tuple(body.leases)


async def test_a_lease_of_a_type_without_a_handler_is_declined_and_names_the_known_ones() -> None:
    app, _, _ = waiting_app()
    async with bench(app) as at:
        declined = await at.declined(at.give("unknown"))
    assert declined.detail == "no handler for job type 'unknown'; known here: job"

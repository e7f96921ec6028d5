"""A suspect runs while nothing else runs, and the dispatcher knows of it before it starts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from support.conditions import PATIENCE_SECONDS
from support.worker_bench import Bench, Clock, bench

from streams import App, Context
from streams.serde.records import Lease
from streams.worker.handler import execution
from streams.worker.lease.held_leases import GRACE_SECONDS, as_listed
from streams.worker.middleware.isolation import STUCK_SECONDS


class Jobs:
    """Jobs that run until they are let go, by type."""

    def __init__(self) -> None:
        self.app = App("test")
        self.running: list[str] = []
        self.events = {name: asyncio.Event() for name in ("first", "second", "suspect")}
        for name in self.events:
            self.app.job(name)(self._handler)
        self.app.job("deaf")(self._deaf)
        self.let_go = asyncio.Event()

    async def _handler(self, ctx: Context) -> None:
        name = ctx._session.lease.type
        self.running.append(name)
        await self.events[name].wait()
        self.running.remove(name)

    async def _deaf(self, ctx: Context) -> None:
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                continue


def free(at: Bench) -> int:
    """How many more leases the owner may send."""
    return at.owner.limit - at.given


async def reached(condition: Callable[[], object], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await asyncio.sleep(0)
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE_SECONDS:g} s: {what}") from None


def waits(at: Bench, lease: Lease) -> bool | None:
    """What the newest heartbeat that lists a lease says of it."""
    bodies: list[Any] = [command.body for command in at.heartbeats(lease.home_partition)]
    told = [held for body in bodies for held in body.leases if held.job_id == lease.job_id]
    found: bool | None = told[-1].waits
    return found


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_it_waits_for_the_others_and_no_slot_is_offered_meanwhile() -> None:
    jobs = Jobs()
    async with bench(jobs.app, slots=8) as at:
        first, second = at.give("first"), at.give("second", home_partition=1)
        suspect = at.give("suspect", home_partition=2, alone=True)
        await reached(lambda: len(jobs.running) == 2, "two jobs run")
        assert free(at) == 0
        jobs.events["first"].set()
        await at.ended(first)
        await settled()
        assert jobs.running == ["second"]
        assert free(at) == 0
        jobs.events["second"].set()
        await at.ended(second)
        await reached(lambda: jobs.running == ["suspect"], "the suspect runs")
        jobs.events["suspect"].set()
        assert (await at.ended(suspect)).status == "succeeded"
        await at.idle()
        assert free(at) == 8


async def test_it_starts_once_a_heartbeat_that_lists_it_is_acknowledged() -> None:
    jobs = Jobs()
    async with bench(jobs.app, slots=8) as at:
        first = at.give("first")
        suspect = at.give("suspect", alone=True)
        await reached(lambda: jobs.running, "the first runs")
        before = len(at.heartbeats(0))
        jobs.events["first"].set()
        await at.ended(first)
        await reached(lambda: jobs.running == ["suspect"], "the suspect runs")
        listed = [h.body.leases for h in at.heartbeats(0)[before:]]  # type: ignore[union-attr]
        assert any([lease.job_id for lease in leases] == [suspect.job_id] for leases in listed)


async def test_its_heartbeats_say_that_it_waits_for_runs_of_other_partitions() -> None:
    jobs = Jobs()
    async with bench(jobs.app, slots=8) as at:
        first = at.give("first", home_partition=1)
        suspect = at.give("suspect", alone=True)
        await reached(lambda: jobs.running, "the first runs")
        at.worker.link.beat()
        await settled()
        assert jobs.running == ["first"]
        assert waits(at, suspect) is True
        jobs.events["first"].set()
        await at.ended(first)
        await reached(lambda: jobs.running == ["suspect"], "the suspect runs")
        assert waits(at, suspect) is False


async def test_a_heartbeat_that_said_that_it_waits_does_not_start_it() -> None:
    """One may be acknowledged after the others have ended."""
    jobs = Jobs()
    async with bench(jobs.app, slots=8) as at:
        held_leases = at.worker.held_leases
        at.give("first", home_partition=1)
        at.give("suspect", alone=True)
        await reached(lambda: jobs.running, "the first runs")
        listed = held_leases.listed(0)
        told = as_listed(listed)
        at.silent = True
        jobs.events["first"].set()
        await reached(lambda: not jobs.running, "the first ends")
        held_leases.renew(listed, 0.0, told)
        await settled()
        assert jobs.running == []
        at.silent = False
        at.worker.link.beat()
        await reached(lambda: jobs.running == ["suspect"], "the suspect runs")


async def test_it_does_not_start_while_its_heartbeat_is_not_acknowledged() -> None:
    jobs = Jobs()
    async with bench(jobs.app, slots=8) as at:
        at.silent = True
        at.give("suspect", alone=True)
        await settled()
        assert jobs.running == []
        at.silent = False
        at.worker.link.beat()
        await reached(lambda: jobs.running == ["suspect"], "the suspect runs")


async def test_its_timeout_begins_at_its_start() -> None:
    jobs, clock = Jobs(), Clock()
    async with bench(jobs.app, slots=8, clock=clock) as at:
        at.give("first", timeout_seconds=900)
        suspect = at.give("suspect", alone=True, timeout_seconds=10)
        await reached(lambda: jobs.running, "the first runs")
        for _ in range(30):
            clock.now += 10
            at.worker.link.beat()
            await settled()
        assert jobs.running == ["first"]
        (held,) = (h for h in at.worker.held_leases.running() if h.lease.alone)
        assert held.timeout_at == float("inf")
        jobs.events["first"].set()
        await reached(lambda: jobs.running == ["suspect"], "the suspect runs")
        assert held.timeout_at == clock.now + 10
        jobs.events["suspect"].set()
        assert (await at.ended(suspect)).status == "succeeded"


async def test_a_second_one_is_declined_and_so_is_any_other_lease() -> None:
    jobs = Jobs()
    async with bench(jobs.app, slots=8) as at:
        at.give("suspect", alone=True)
        for lease in (at.give("suspect", alone=True), at.give("first")):
            declined = await at.declined(lease)
            assert declined.detail == "no slot is free"


async def test_it_is_cancelled_or_lost_while_it_waits() -> None:
    jobs, clock = Jobs(), Clock()
    async with bench(jobs.app, slots=8, clock=clock) as at:
        at.give("first", timeout_seconds=900)
        cancelled = at.give("suspect", alone=True)
        at.reply(cancelled, "cancel", message="not needed")
        assert (await at.ended(cancelled)).status == "cancelled"
        lost = at.give("suspect", alone=True)
        clock.now += 25
        await reached(lambda: at.worker.held_leases.free() > 0, "slots are offered again")
        await at.idle_but(1)
        said = [c.body for _, c in at.commands() if c.job_id == lost.job_id]
        assert said == []


async def test_it_is_given_back_when_the_worker_shuts_down() -> None:
    jobs = Jobs()
    async with bench(jobs.app, slots=8) as at:
        at.give("first")
        suspect = at.give("suspect", alone=True)
        await reached(lambda: jobs.running, "the first runs")
        draining = asyncio.ensure_future(at.worker.drain(30))
        assert (await at.ended(suspect)).status == "released"
        jobs.events["first"].set()
        await draining
    assert "suspect" not in jobs.running


async def test_slots_are_offered_again_if_it_ignores_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execution.Execution.__init__, "__defaults__", (0.05,))
    jobs = Jobs()
    async with bench(jobs.app, slots=8) as at:
        deaf = at.give("deaf", alone=True, timeout_seconds=0.05)
        assert (await at.ended(deaf)).status == "retry"
        await at.idle()
        assert free(at) == at.worker.held_leases.free() == 7
        jobs.let_go.set()


async def test_it_is_given_back_if_a_run_never_ends() -> None:
    jobs, clock = Jobs(), Clock()
    async with bench(jobs.app, slots=8, clock=clock) as at:
        at.give("deaf", timeout_seconds=1)
        suspect = at.give("suspect", alone=True)
        for _ in range(2 + round(GRACE_SECONDS + STUCK_SECONDS)):
            clock.now += 1
            at.worker.link.beat()
            await settled()
        ended = await at.ended(suspect)
        assert ended.status == "released"
        assert "ignore" in (ended.error or "")
        jobs.let_go.set()
        await at.idle()

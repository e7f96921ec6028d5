"""A heavy job takes several of its worker's slots, and waits until it has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from support.conditions import PATIENCE_SECONDS
from support.worker_bench import Bench, Clock, bench, topology

from streams import App, Context
from streams.errors import ConfigError
from streams.serde.records import Heartbeat, Lease
from streams.settings import load_settings
from streams.worker import metrics
from streams.worker.handler import execution
from streams.worker.lease.held_leases import GRACE_SECONDS
from streams.worker.middleware.weight import STUCK_SECONDS, Weight
from streams.worker.run import run

WEIGHTS = {"light": 1, "double": 2, "heavy": 3}


class Jobs:
    """Jobs that run until they are let go; `most` is the most slots that they had at once."""

    def __init__(self) -> None:
        self.app = App("test")
        self.running: list[str] = []
        self.most = self._slots = 0
        self._ends: dict[str, asyncio.Event] = {}
        for name, weight in WEIGHTS.items():
            self.app.job(name, weight=weight)(self._handler)
        self.app.job("deaf", weight=2)(self._deaf)
        self.let_go = asyncio.Event()

    def end(self, lease: Lease) -> None:
        self._ends[lease.job_id].set()

    async def _handler(self, ctx: Context) -> None:
        weight = WEIGHTS[ctx._session.lease.type]
        end = self._ends[ctx.job_id] = asyncio.Event()
        self.running.append(ctx.job_id)
        self._slots += weight
        self.most = max(self.most, self._slots)
        try:
            await end.wait()
        finally:
            self._slots -= weight
            self.running.remove(ctx.job_id)

    async def _deaf(self, ctx: Context) -> None:
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                continue


async def reached(condition: Callable[[], object], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await asyncio.sleep(0)
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE_SECONDS:g} s: {what}") from None


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def begun(jobs: Jobs, *leases: Lease) -> None:
    await reached(lambda: jobs.running == [each.job_id for each in leases], "these runs alone run")


def listed(at: Bench, lease: Lease) -> list[bool]:
    """Whether the lease still waits, by each heartbeat that lists it."""
    bodies = [command.body for command in at.heartbeats(lease.home_partition)]
    leases = [held for body in bodies if isinstance(body, Heartbeat) for held in body.leases]
    return [held.waits for held in leases if held.job_id == lease.job_id]


async def test_it_begins_once_as_many_slots_are_free_as_it_takes() -> None:
    jobs = Jobs()
    async with bench(jobs.app, slots=4) as at:
        first, second = at.give("light"), at.give("light")
        await begun(jobs, first, second)
        heavy = at.give("heavy")
        await settled()
        await begun(jobs, first, second)
        jobs.end(first)
        await begun(jobs, second, heavy)
        jobs.end(heavy)
        jobs.end(second)
        assert (await at.ended(heavy)).status == "succeeded"
        await at.idle()
        assert jobs.most == at.worker.held_leases.free() == 4


async def test_no_more_leases_are_taken_than_there_are_slots_beside_it() -> None:
    """Other workers run what would only wait here."""
    jobs, before = Jobs(), metrics.RUNNING._value.get()
    async with bench(jobs.app, slots=4) as at:
        heavy = at.give("heavy")
        await begun(jobs, heavy)
        light = at.give("light")
        await begun(jobs, heavy, light)
        assert metrics.RUNNING._value.get() == before + 4
        declined = await at.declined(at.give("light"))
        assert declined.detail == "no slot is free"
        jobs.end(heavy)
        await at.ended(heavy)
        await begun(jobs, light)
        assert at.worker.held_leases.free() == 3
        jobs.end(light)
        await at.idle()
        assert metrics.RUNNING._value.get() == before


async def test_slots_that_light_runs_leave_are_kept_for_it() -> None:
    jobs = Jobs()
    async with bench(jobs.app, slots=4) as at:
        lights = [at.give("light") for _ in range(3)]
        await begun(jobs, *lights)
        heavy = at.give("heavy")
        for number in (0, 1):
            await settled()
            assert jobs.running == [light.job_id for light in lights[number:]]
            assert (await at.declined(at.give("light"))).detail == "no slot is free"
            jobs.end(lights[number])
            await at.ended(lights[number])
        await begun(jobs, lights[2], heavy)
        jobs.end(heavy)
        await at.ended(heavy)
        assert at.worker.held_leases.free() == 3


async def test_light_runs_that_were_on_their_way_begin_after_it() -> None:
    jobs = Jobs()
    async with bench(jobs.app, slots=4) as at:
        first, second = at.give("light"), at.give("light")
        heavy, behind = at.give("heavy"), at.give("light")  # all are read before one begins
        await begun(jobs, first, second)
        jobs.end(second)
        await begun(jobs, first, heavy)
        jobs.end(first)
        await begun(jobs, heavy, behind)
        assert jobs.most == 4
        jobs.end(heavy)
        jobs.end(behind)
        assert (await at.ended(behind)).status == "succeeded"


async def test_while_it_waits_its_lease_is_kept_and_its_timeout_has_not_begun() -> None:
    jobs, clock = Jobs(), Clock()
    async with bench(jobs.app, slots=4, clock=clock) as at:
        lights = [at.give("light", timeout_seconds=900) for _ in range(2)]
        await begun(jobs, *lights)
        heavy = at.give("heavy", timeout_seconds=10)
        await settled()
        told = len(listed(at, heavy))
        for _ in range(30):
            clock.now += 10
            at.worker.link.beat()
            await settled()
        assert set(listed(at, heavy)[told:]) == {True}
        jobs.end(lights[0])
        await begun(jobs, lights[1], heavy)
        assert listed(at, heavy)[-1] is False
        (held,) = (h for h in at.worker.held_leases.running() if h.lease.type == "heavy")
        assert held.timeout_at == clock.now + 10
        clock.now += 11
        at.worker.link.beat()
        assert (await at.ended(heavy)).status == "retry"


async def test_it_is_cancelled_or_lost_while_it_waits_and_leaves_its_place() -> None:
    jobs, clock = Jobs(), Clock()
    async with bench(jobs.app, slots=4, clock=clock) as at:
        lights = [at.give("light", timeout_seconds=900) for _ in range(2)]
        await begun(jobs, *lights)
        cancelled, behind = at.give("heavy"), at.give("light", timeout_seconds=900)
        await settled()
        at.reply(cancelled, "cancel", message="not needed")
        assert (await at.ended(cancelled)).status == "cancelled"
        await begun(jobs, *lights, behind)
        assert at.worker.held_leases.free() == 1
        lost = at.give("heavy")
        await settled()
        at.silent = True
        clock.now += 25
        await reached(lambda: not jobs.running, "all have lost their leases")
        await at.idle()
        assert [c.body for _, c in at.commands() if c.job_id == lost.job_id] == []
        assert at.worker.held_leases.free() == 4


async def test_it_is_given_back_when_the_worker_shuts_down() -> None:
    jobs = Jobs()
    async with bench(jobs.app, slots=4) as at:
        lights = [at.give("light") for _ in range(2)]
        await begun(jobs, *lights)
        heavy = at.give("heavy")
        await settled()
        draining = asyncio.ensure_future(at.worker.drain(30))
        assert (await at.ended(heavy)).status == "released"
        await begun(jobs, *lights)
        for light in lights:
            jobs.end(light)
        await draining


async def test_a_run_that_ignores_its_end_keeps_its_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution.Execution.__init__, "__defaults__", (0.05,))
    jobs = Jobs()
    async with bench(jobs.app, slots=4) as at:
        deaf = at.give("deaf", timeout_seconds=0.05)
        assert (await at.ended(deaf)).status == "retry"
        await at.idle()
        assert at.worker.held_leases.free() == 2
        heavy = at.give("heavy")
        await settled()
        assert jobs.running == []
        jobs.let_go.set()
        await begun(jobs, heavy)
        jobs.end(heavy)


async def test_it_is_given_back_if_such_runs_leave_it_no_room() -> None:
    jobs, clock = Jobs(), Clock()
    async with bench(jobs.app, slots=4, clock=clock) as at:
        at.give("deaf", timeout_seconds=1)
        heavy = at.give("heavy")
        for _ in range(2 + round(GRACE_SECONDS + STUCK_SECONDS)):
            clock.now += 1
            at.worker.link.beat()
            await settled()
        ended = await at.ended(heavy)
        assert (ended.status, "ignore" in (ended.error or "")) == ("released", True)
        jobs.let_go.set()
        await at.idle()
        assert at.worker.held_leases.free() == 4


async def test_many_runs_of_all_weights_never_have_more_slots_than_there_are() -> None:
    jobs = Jobs()
    async with bench(jobs.app, slots=4) as at:
        for number in range(60):
            given = at.give(("light", "heavy", "double", "light")[number % 4])
            await settled()
            if at.worker.held_leases.free() == 0 and jobs.running:
                jobs._ends[jobs.running[number % len(jobs.running)]].set()
            await settled()
        while at.worker.executor.running:
            await reached(lambda: jobs.running, f"the next run begins, {given.job_id} too")
            jobs._ends[jobs.running[0]].set()
            await settled()
        assert jobs.most == at.worker.held_leases.free() == 4


async def test_an_application_without_heavy_jobs_may_do_without_the_middleware() -> None:
    app = App("test")
    app.middleware.remove(Weight)

    @app.job("job", weight=2)
    async def handler(ctx: Context) -> int:
        return 1

    async with bench(app, slots=1) as at:
        assert (await at.ended(at.give())).status == "succeeded"


@pytest.mark.parametrize("weight", [0, -1, 1.5, True, "2"])
def test_a_wrong_weight_is_refused(weight: object) -> None:
    with pytest.raises(ConfigError, match="'x': weight="):
        App("test").job("x", weight=weight)  # type: ignore[arg-type]


def test_a_worker_with_fewer_slots_than_a_job_takes_is_refused() -> None:
    settings = load_settings(slots=2)
    with pytest.raises(ConfigError, match=r"'heavy' has weight=3, and .* has 2 slots"):
        run(Jobs().app, settings, topology())

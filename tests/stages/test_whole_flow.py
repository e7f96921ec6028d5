"""From a delivery to the end of its job, through every stage: once, whatever goes wrong."""

from __future__ import annotations

import itertools
import random
from collections.abc import Awaitable, Callable

import pytest
from support import whole_flow
from support.whole_flow import LATER, STAGES, STORES, TICKETS, Flow, Story, flow, play

from streams.runtime.memory_broker import CrashPoint
from streams.serde.codec import SCHEDULE
from streams.serde.ids import event_job_id, submitted_job_id

CRASH_POINTS: tuple[CrashPoint, ...] = ("before_commit", "after_commit", "after_write")


def job(tenant: str, ticket: str) -> str:
    return event_job_id(tenant, "zendesk", ticket)


@pytest.fixture(params=[False, True], ids=["apart", "fused"], autouse=True)
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test is of stages apart, and of stages that are fused."""
    monkeypatch.setattr(whole_flow.Flow, "fused", request.param)


@pytest.fixture(scope="module")
def undisturbed() -> Callable[[], Awaitable[Story]]:
    """What comes of the day if nothing goes wrong, as the first test has shown it to be right."""
    kept: list[Story] = []

    async def story() -> Story:
        if not kept:
            async with flow() as at:
                kept.append(await play(at))
        return kept[0]

    return story


async def test_from_event_to_effect_to_end() -> None:
    async with flow() as at:
        story = await play(at)
    assert story.events == tuple(sorted(f"{tenant}/{ticket}" for tenant, ticket, *_ in TICKETS))
    ends = {job_id: end[:2] for job_id, end in story.jobs.items()}
    assert ends == {
        job("acme", "1"): ("succeeded", 1),
        job("globex", "1"): ("succeeded", 1),
        job("acme", "2"): ("succeeded", 2),
        job("globex", "2"): ("succeeded", 1),
        job("initech", "3"): ("failed", 1),
        job("initech", "1"): ("succeeded", 2),
        **{submitted_job_id(tenant, "later"): ("succeeded", 1) for tenant in LATER},
    }
    assert story.jobs[job("acme", "1")][2] == '{"draft":"dear customer of acme"}'
    assert story.dead_letters == ((job("initech", "3"), "permanent_error"),)
    assert set(story.calls.values()) == {1}, "steps and effects happen once, retried or not"
    effects = [key for key in story.calls if key[0] != "draft"]
    assert len(effects) == 10
    assert sorted(story.ledger.values()) == [("done", 1)] * len(effects)
    assert len(at.outside.keys) == len(effects)


async def test_a_redelivery_changes_nothing() -> None:
    async with flow() as at:
        job_id = at.deliver("acme", "1")
        await at.all_ended(job_id)
        before, calls = at.written(), dict(at.outside.calls)
        for _ in range(3):
            assert at.deliver("acme", "1") == job_id
        await at.advance(60)
        assert (at.written(), at.outside.calls) == (before, calls)


async def test_a_redelivery_while_the_job_runs_changes_nothing() -> None:
    async with flow() as at:
        at.outside.hold = "email"
        job_id = at.deliver("acme", "1")
        await at.until(lambda: at.outside.held, "the e-mail is under way")
        before = at.written()
        at.deliver("acme", "1")
        await at.advance(20)
        assert at.jobs()[job_id].status == "running"
        assert at.written() == before


async def test_a_retry_waits_out_its_backoff_and_repeats_neither_step_nor_effect() -> None:
    async with flow() as at:
        job_id = at.deliver("acme", "2", "flaky")
        await at.settle()
        failed_at, waiting = at.driver.now, at.jobs()[job_id]
        assert (waiting.status, waiting.next_retry_at is None) == ("scheduled", False)
        assert 10_000 <= (waiting.next_retry_at or 0) - failed_at <= 12_500
        await at.advance(9)
        assert at.jobs()[job_id] == waiting
        await at.advance(4)
        assert at.jobs()[job_id].status == "succeeded"
        (timer,) = (SCHEDULE.decode(r.value) for r in at.driver.output("schedule"))
        (fired,) = [r for r in at.driver.output("jobs.commands") if r.value == timer.value]
        assert 0 <= fired.timestamp - timer.due_at <= 50
        assert at.outside.calls == {("draft", "acme", "2"): 1, ("email", "acme", "2"): 1}


@pytest.mark.long
@pytest.mark.parametrize("point", CRASH_POINTS)
@pytest.mark.parametrize("stage", STAGES)
async def test_a_stage_that_crashes_again_and_again_changes_nothing(
    stage: str, point: CrashPoint, undisturbed: Callable[[], Awaitable[Story]]
) -> None:
    async with flow() as at:
        crashes = Crashes(at, stage, point)
        at.disturb = crashes.turn
        story = await play(at)
    assert crashes.count >= 3
    assert story == await undisturbed()


@pytest.mark.long
@pytest.mark.parametrize(("stage", "store"), STORES)
async def test_a_store_that_is_deleted_again_and_again_changes_nothing(
    stage: str, store: str, undisturbed: Callable[[], Awaitable[Story]]
) -> None:
    async with flow() as at:
        at.disturb = again_and_again(stage, lambda: at.lose_store(stage, store))
        assert await play(at) == await undisturbed()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
async def test_any_mixture_of_crashes_and_lost_stores_changes_nothing(
    seed: int, undisturbed: Callable[[], Awaitable[Story]]
) -> None:
    rng = random.Random(seed)
    async with flow() as at:

        def disturb() -> None:
            match rng.randrange(12):
                case 0:
                    at.lose_store(*rng.choice(STORES))
                case 1 | 2:
                    at.driver.crash(rng.choice(STAGES), rng.choice(CRASH_POINTS))

        at.disturb = disturb
        assert await play(at) == await undisturbed()


async def test_a_worker_killed_in_an_effect_repeats_it_only_under_the_key_the_tool_honours() -> (
    None
):
    async with flow() as at:
        at.outside.hold = "email"
        job_id = at.deliver("acme", "1")
        await at.until(lambda: at.outside.held, "the e-mail is under way")
        await at.kill_worker()
        at.start_worker()
        await at.all_ended(job_id)
        ended = at.jobs()[job_id]
        assert (ended.status, ended.attempts, ended.lost, ended.epoch) == ("succeeded", 1, 1, 2)
        assert at.outside.calls == {("draft", "acme", "1"): 1, ("email", "acme", "1"): 2}
        assert len(at.outside.keys) == 1


async def test_a_worker_killed_in_an_effect_without_a_key_leaves_it_to_a_person() -> None:
    async with flow() as at:
        at.outside.hold = "refund"
        job_id = at.deliver("acme", "1", "refund")
        await at.until(lambda: at.outside.held, "the refund is under way")
        await at.kill_worker()
        at.start_worker()
        await at.until(lambda: at.jobs()[job_id].status == "needs_review", "a person is asked")
        await at.advance(120)
        assert at.outside.calls["refund", "acme", "1"] == 1
        assert "payment:refund/order" in (at.jobs()[job_id].last_error or "")


async def test_a_worker_that_falls_silent_loses_its_job_after_its_term() -> None:
    async with flow() as at:
        at.outside.hold = "email"
        job_id = at.deliver("acme", "1")
        await at.until(lambda: at.outside.held, "the e-mail is under way")
        await at.kill_worker()
        await at.advance(29)
        assert at.jobs()[job_id].status == "running"
        await at.advance(2)
        assert (at.jobs()[job_id].status, at.jobs()[job_id].lost) == ("scheduled", 1)
        at.start_worker()
        await at.all_ended(job_id)
        assert len(at.leases) == 2


def again_and_again(stage: str, disturbance: Callable[[], None]) -> Callable[[], None]:
    """At every fourth turn; a dispatcher has the turns that it takes to be told who is there.

    One that never lives until its worker has answered leases nothing.
    """
    dispatches = stage == "dispatcher" or whole_flow.Flow.fused
    turns, every = itertools.count(), 9 if dispatches else 4
    return lambda: None if next(turns) % every else disturbance()


class Crashes:
    """Has a stage die in its commit, if it makes one, at every so many turns."""

    def __init__(self, at: Flow, stage: str, point: CrashPoint) -> None:
        self._commits = at.driver.run_of(stage).commits
        self._point = point
        self._armed = False
        self._arm = again_and_again(stage, self._set)
        self.count = 0

    def turn(self) -> None:
        self.count += self._armed and self._commits.armed is None
        self._armed, self._commits.armed = False, None
        self._arm()

    def _set(self) -> None:
        self._armed = True
        self._commits.arm(self._point, 1)

"""A blocked event loop is named, asks for no more work, and ends with the process at last."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import REGISTRY
from support.worker_bench import bench

from streams import App, Context
from streams.serde.records import Heartbeat
from streams.worker.handler import watchdog as module
from streams.worker.handler.watchdog import Watchdog


class Clock:
    """Monotonic time that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Log:
    """The lines that the watchdog writes."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    error = info


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    lines = Log()
    monkeypatch.setattr(module, "log", lines)
    return lines


async def blocked_handler_seen_by(
    look: Any, timeout_seconds: float, started_at: float | None = None
) -> list[int]:
    """Run a handler that blocks the loop's thread while `look(watchdog, clock)` runs in another."""
    app = App("test")
    exits: list[int] = []

    @app.job("blocker")
    async def handler(ctx: Context) -> None:
        thread = threading.Thread(target=look, args=(watchdog, clock, at))
        thread.start()
        thread.join(10)

    async with bench(app) as at:
        clock = Clock()
        watchdog = Watchdog(
            asyncio.get_running_loop(),
            at.worker.held_leases,
            at.worker.link,
            clock,
            exits.append,
        )
        watchdog.tick()
        lease = at.give("blocker", timeout_seconds=timeout_seconds)
        if started_at is not None:
            for held in at.worker.held_leases.running():
                held.started_at = started_at
        await at.ended(lease)
        watchdog.stop()
    return exits


async def test_the_log_names_the_job_and_the_blocked_line_once(log: Log) -> None:
    def look(watchdog: Watchdog, clock: Clock, at: Any) -> None:
        for clock.now in (0.9, 1.5, 2.5):
            watchdog.look()
        at.worker.link.beat()

    assert await blocked_handler_seen_by(look, 300) == []
    ((event, fields),) = log.lines
    assert event == "a handler blocks the event loop"
    assert fields["type"] == "blocker"
    assert fields["job_id"].startswith("job_")
    assert "in handler" in fields["stack"]


async def test_the_gauge_grows_while_the_loop_is_blocked(log: Log) -> None:
    shown: list[float | None] = []

    def look(watchdog: Watchdog, clock: Clock, at: Any) -> None:
        for clock.now in (0.25, 60.25, 120.25):
            shown.append(REGISTRY.get_sample_value("tidegate_worker_loop_lag_seconds"))

    await blocked_handler_seen_by(look, 300)
    assert shown == [0, 60, 120]


async def test_a_blocked_worker_keeps_its_leases_and_takes_no_more(log: Log) -> None:
    told: list[Heartbeat] = []
    offered: list[int] = []

    def look(watchdog: Watchdog, clock: Clock, at: Any) -> None:
        for clock.now in (1.0, 2.0):
            watchdog.look()
        at.worker.link.beat()
        told.append(at.heartbeats(0)[-1].body)
        offered.append(at.owner.limit - at.given)

    await blocked_handler_seen_by(look, 300)
    assert (offered[0], len(told[0].leases)) == (0, 1)
    assert log.lines


async def test_past_timeout_and_grace_the_process_ends(log: Log) -> None:
    def look(watchdog: Watchdog, clock: Clock, at: Any) -> None:
        for clock.now in (10, 14.9, 15.1):
            watchdog.look()

    assert await blocked_handler_seen_by(look, 10, started_at=0) == [70]
    assert "exiting" in log.lines[-1][0]


@pytest.mark.parametrize("waits", [False, True])
async def test_what_a_handler_left_behind_does_not_block_the_loop_for_ever(
    log: Log, waits: bool
) -> None:
    """No run has begun whose timeout would tell how long it may: none, or one that is to run alone.

    The worker would be alive and do nothing.
    """
    app, exits = App("test"), list[tuple[float, int]]()
    over, left = asyncio.Event(), list[asyncio.Task[None]]()

    async def behind(look: Any) -> None:
        await over.wait()
        thread = threading.Thread(target=look)
        thread.start()
        thread.join(10)

    @app.job("job")
    async def handler(ctx: Context) -> None:
        left.append(asyncio.create_task(behind(look)))

    def look() -> None:
        for clock.now in (2.0, 30.0, 30.5):
            watchdog.look()

    async with bench(app) as at:
        clock = Clock()
        watchdog = Watchdog(
            asyncio.get_running_loop(),
            at.worker.held_leases,
            at.worker.link,
            clock,
            lambda code: exits.append((clock.now, code)),
        )
        watchdog.tick()
        await at.ended(at.give(timeout_seconds=10))
        await at.idle()
        if waits:
            held = at.worker.held_leases.take(replace(at.blank(), alone=True), 0, at.owner)
            assert held is not None
        over.set()
        await left[0]
        watchdog.stop()
    assert exits == [(30.5, 70)]


async def test_a_worker_whose_slots_are_all_taken_for_ever_ends(log: Log) -> None:
    """By handlers that ignore that they were cancelled: it would be alive and do nothing."""
    app, exits, let_go = App("test"), list[int](), asyncio.Event()

    @app.job("job")
    async def handler(ctx: Context) -> None:
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await let_go.wait()

    async with bench(app, slots=2) as at:
        clock = Clock()
        watchdog = Watchdog(
            asyncio.get_running_loop(),
            at.worker.held_leases,
            at.worker.link,
            clock,
            exits.append,
        )
        for _ in range(2):
            at.give(timeout_seconds=10)
        first, second = at.worker.held_leases.running()
        first.started_at = second.started_at = 0
        for clock.now in map(float, range(1, 47)):
            watchdog.tick()
            second.started_at = 1.0
            watchdog.look()
            watchdog.look()
        assert exits == []
        second.started_at = 0
        watchdog.look()
        assert exits == [70]
        watchdog.stop()
        let_go.set()
        await at.idle()
    assert "for ever" in log.lines[-1][0]


async def test_a_heavy_job_that_has_all_slots_for_ever_ends_its_worker(log: Log) -> None:
    app, exits, let_go = App("test"), list[int](), asyncio.Event()

    @app.job("job", weight=2)
    async def handler(ctx: Context) -> None:
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await let_go.wait()

    async with bench(app, slots=2) as at:
        clock = Clock()
        loop, worker = asyncio.get_running_loop(), at.worker
        watchdog = Watchdog(loop, worker.held_leases, worker.link, clock, exits.append)
        at.give(timeout_seconds=10)
        while worker.held_leases.free():
            await asyncio.sleep(0)
        worker.held_leases.running()[0].started_at = 0
        for clock.now in map(float, range(1, 47)):
            watchdog.tick()
            watchdog.look()
        watchdog.stop()
        let_go.set()
        await at.idle()
    assert exits[:1] == [70]


async def test_a_full_worker_that_was_suspended_has_time_to_end_its_runs(log: Log) -> None:
    app, exits = App("test"), list[int]()

    @app.job("job")
    async def handler(ctx: Context) -> None:
        await asyncio.Event().wait()

    async with bench(app, slots=1) as at:
        clock = Clock()
        watchdog = Watchdog(
            asyncio.get_running_loop(),
            at.worker.held_leases,
            at.worker.link,
            clock,
            exits.append,
        )
        at.give(timeout_seconds=10)
        (held,) = at.worker.held_leases.running()
        held.started_at = 0
        for clock.now in (1.0, *(3600 + n / 4 for n in range(139))):
            watchdog.look()
            watchdog.tick()
        assert exits == [], "34.5 s after it woke up"
        for clock.now in (3635.0, 3635.5):
            watchdog.tick()
            watchdog.look()
        watchdog.stop()
    assert exits == [70]


async def test_a_loop_that_ticks_again_takes_work_again(log: Log) -> None:
    async with bench(App("test"), slots=2) as at:
        clock = Clock()
        watchdog = Watchdog(
            asyncio.get_running_loop(), at.worker.held_leases, at.worker.link, clock
        )
        for clock.now in (1.0, 2.0):
            watchdog.look()
        assert at.worker.held_leases.free() == 0
        watchdog.tick()
        watchdog.look()
        watchdog.stop()
        assert at.worker.held_leases.free() == 2
    assert [event for event, _ in log.lines][-1] == "the event loop runs again"


async def test_a_process_that_stood_still_as_a_whole_is_not_ended_for_it(log: Log) -> None:
    def look(watchdog: Watchdog, clock: Clock, at: Any) -> None:
        clock.now = 3600  # suspended: this thread runs before the loop has ticked
        watchdog.look()
        told.append(at.worker.held_leases.blocked)
        for clock.now in (3600.5, 3601.2):
            watchdog.look()
        told.append(at.worker.held_leases.blocked)

    told: list[bool] = []
    assert await blocked_handler_seen_by(look, 10, started_at=0) == [70, 70]
    assert told == [False, True]


async def test_a_lease_past_timeout_and_grace_is_no_longer_listed() -> None:
    app = App("test")

    @app.job("job")
    async def handler(ctx: Context) -> None:
        await asyncio.Event().wait()

    async with bench(app) as at:
        at.give(timeout_seconds=10)
        (held,) = at.worker.held_leases.running()
        held.started_at -= 14.9
        assert at.worker.held_leases.listed(0) == (held,)
        held.started_at -= 0.2
        assert at.worker.held_leases.listed(0) == ()

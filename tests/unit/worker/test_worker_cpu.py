"""A handler in a process of its own: it computes, is killed, and harms nobody."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from support import cpu_handlers
from support.conditions import PATIENCE_SECONDS, eventually
from support.worker_bench import bench

from streams import App, BlockingContext
from streams.errors import ConfigError
from streams.serde.link.messages import Live, Progress
from streams.serde.records import Checkpoint, Claim, Ended

SECONDS = 2 * PATIENCE_SECONDS


def app_of(function: Callable[[BlockingContext[Any]], Any], **given: Any) -> App:
    app = App("test")
    app.job("job", cpu=True, **{"timeout": SECONDS, **given})(function)
    return app


async def ended(function: Callable[[BlockingContext[Any]], Any], **given: Any) -> Ended:
    async with bench(app_of(function, **given)) as at:
        return await at.ended(at.give(timeout_seconds=SECONDS))


def value(end: Ended) -> Any:
    assert end.status == "succeeded", end.error
    return orjson.loads(end.result or "null")


async def test_it_runs_in_another_process_which_serves_the_next_run_too() -> None:
    async with bench(app_of(cpu_handlers.pid)) as at:
        pids = {value(await at.ended(at.give(timeout_seconds=SECONDS))) for _ in range(3)}
    assert len(pids) == 1
    assert os.getpid() not in pids


async def test_it_gets_the_input() -> None:
    assert value(await ended(cpu_handlers.double)) == 2


async def test_its_calls_are_made_by_the_worker_and_their_functions_run_there() -> None:
    async with bench(app_of(cpu_handlers.steps_and_effects)) as at:
        found = value(await at.ended(at.give(timeout_seconds=SECONDS)))
        assert found["made"] == 3
        assert found["sent"] == {"to": "a@example.com", "pid": found["pid"]}
        assert found["cancelled"] is False
        steps = {body.step.id: body.step.value for body in at.bodies(Checkpoint)}
        assert steps["made[k]"] == "3"
        assert [claim.action for claim in at.bodies(Claim)] == ["email:send/once"]
        assert at.owner.of(Progress)
        assert at.owner.of(Live)


async def test_at_its_deadline_it_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    app, file = app_of(cpu_handlers.spins), tmp_path / "pids"
    app.job("other", cpu=True, timeout=SECONDS)(cpu_handlers.double)
    async with bench(app) as at:
        lease = at.give(timeout_seconds=3, input=orjson.dumps({"file": str(file)}).decode())
        end = await at.ended(lease)
        assert (end.status, end.error) == ("retry", "TimeoutError: ran past its 3 s")
        other = at.give("other", timeout_seconds=SECONDS)
        assert value(await at.ended(other)) == 2
        await at.idle()
    pids = list(map(int, file.read_text().split()))
    eventually(lambda: not any(map(lives, pids)), what="the end of the process and its child")


def lives(pid: int) -> bool:
    with suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX"
    return False


async def test_a_cancelled_one_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    async with bench(app_of(cpu_handlers.spins)) as at:
        given = orjson.dumps({"file": str(file)}).decode()
        lease = at.give(timeout_seconds=SECONDS, input=given)
        begun = partial(eventually, lambda: file.exists() and file.read_text(), what="its begin")
        await asyncio.to_thread(begun)
        at.reply(lease, "cancel", message="no longer needed")
        assert (await at.ended(lease)).status == "cancelled"
        await at.idle()
    eventually(lambda: not any(map(lives, map(int, file.read_text().split()))), what="its end")


@pytest.mark.parametrize(
    ("function", "status", "told"),
    [
        (cpu_handlers.exits, "retry", "ended by itself with exit code 7"),
        (cpu_handlers.says_exit, "retry", "SystemExit: no more"),
        (cpu_handlers.interrupts, "retry", "KeyboardInterrupt"),
        (cpu_handlers.wrong, "retry", "ZeroDivisionError: of their own"),
        (cpu_handlers.refuses, "failed", "PermanentError: never"),
        (cpu_handlers.wrong_key, "failed", "nothing was claimed"),
        (cpu_handlers.parks, "parked", None),
    ],
)
async def test_each_end_is_clear(
    function: Callable[[BlockingContext[Any]], Any], status: str, told: str | None
) -> None:
    end = await ended(function)
    assert end.status == status
    assert told is None or told in (end.error or "")


async def test_where_it_failed_is_shown() -> None:
    end = await ended(cpu_handlers.wrong)
    assert "cpu_handlers.py" in (end.traceback or "")
    assert "in wrong" in (end.traceback or "")


async def test_it_asks_for_a_later_attempt() -> None:
    end = await ended(cpu_handlers.later)
    assert (end.status, end.retry_after_seconds) == ("retry", 7)


async def test_what_the_worker_refuses_is_raised_there() -> None:
    assert "step" in value(await ended(cpu_handlers.catches_a_refusal))


async def test_more_memory_than_it_may_have_ends_it_alone() -> None:
    async with bench(app_of(cpu_handlers.eats, memory_mb=1_000)) as at:
        end = await at.ended(at.give(timeout_seconds=SECONDS))
        assert end.status == "retry"
        assert "MemoryError" in (end.error or "")


async def test_the_workers_keys_are_not_in_its_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDEGATE_VAULT_KEYS", "secret")
    assert value(await ended(cpu_handlers.sees_secrets)) == []


async def test_a_process_that_was_killed_between_two_runs_is_replaced() -> None:
    async with bench(app_of(cpu_handlers.pid)) as at:
        first = value(await at.ended(at.give(timeout_seconds=SECONDS)))
        os.kill(first, signal.SIGKILL)
        # A zombie's threads may still hold its socket: only one that is reaped has let go of it.
        gone = Path(f"/proc/{first}")
        await asyncio.to_thread(eventually, lambda: not gone.exists(), what="its end")
        assert value(await at.ended(at.give(timeout_seconds=SECONDS))) != first


def test_what_cannot_run_so_is_refused_where_it_is_declared() -> None:
    app = App("test")

    def local(ctx: BlockingContext[Any]) -> None: ...

    async def waits(ctx: Any) -> None: ...

    with pytest.raises(ConfigError, match="at the top of a module"):
        app.job("job", cpu=True)(local)
    with pytest.raises(ConfigError, match="make it a plain def"):
        app.job("job", cpu=True)(waits)
    with pytest.raises(ConfigError, match="add cpu=True"):
        app.job("job", memory_mb=100)(local)
    with pytest.raises(ConfigError, match="give a number from 64"):
        app.job("job", cpu=True, memory_mb=1)(cpu_handlers.pid)

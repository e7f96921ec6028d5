"""A process of a handler that forks, dies, or says what it should not harms no other run."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from support import cpu_handlers
from support.conditions import PATIENCE_SECONDS, eventually
from support.worker_bench import bench

from streams import App
from streams.errors import ConfigError
from streams.serde.effect_states import DONE
from streams.serde.records import Checkpoint, Ended, Outcome
from streams.worker.blocking.parent import InProcess
from streams.worker.blocking.process import Process

SECONDS = 2 * PATIENCE_SECONDS


def app_of(*functions: Any) -> App:
    app = App("test")
    for function in functions:
        app.job(function.__name__, cpu=True, timeout=SECONDS)(function)
    return app


async def end_of(at: Any, function: Any, **given: Any) -> Ended:
    lease = at.give(function.__name__, **{"timeout_seconds": SECONDS, **given})
    end: Ended = await at.ended(lease)
    return end


def value(end: Ended) -> Any:
    assert end.status == "succeeded", end.error
    return orjson.loads(end.result or "null")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_the_function_of_a_step_calls_the_context_too() -> None:
    async with bench(app_of(cpu_handlers.speaks_in_a_step)) as at:
        for _ in range(2):
            assert value(await end_of(at, cpu_handlers.speaks_in_a_step)) == [False, 3]


async def test_what_cannot_be_sent_fails_its_call_and_is_no_others_value() -> None:
    async with bench(app_of(cpu_handlers.makes_what_cannot_be_sent)) as at:
        found = value(await end_of(at, cpu_handlers.makes_what_cannot_be_sent))
        assert found == ["PermanentError", 3]
        assert [body.step.value for body in at.bodies(Checkpoint)] == ["3"]


async def test_an_effect_whose_result_cannot_be_sent_is_done_all_the_same() -> None:
    function = cpu_handlers.has_an_effect_that_cannot_be_sent
    async with bench(app_of(function)) as at:
        await end_of(at, function)
        assert [outcome.status for outcome in at.bodies(Outcome)] == [DONE]


async def test_a_result_that_cannot_be_sent_fails_the_job_by_name() -> None:
    async with bench(app_of(cpu_handlers.returns_what_cannot_be_sent)) as at:
        end = await end_of(at, cpu_handlers.returns_what_cannot_be_sent)
    assert end.status == "failed"
    assert "the handler's result is not JSON" in (end.error or "")


async def test_an_error_that_cannot_be_sent_is_told_by_its_name() -> None:
    async with bench(app_of(cpu_handlers.raises_what_cannot_be_sent)) as at:
        end = await end_of(at, cpu_handlers.raises_what_cannot_be_sent)
    assert (end.status, end.error) == ("retry", "Local: local")


@pytest.mark.parametrize("function", [cpu_handlers.forks_and_returns, cpu_handlers.forks_in_a_step])
async def test_a_fork_that_goes_on_as_the_handler_answers_nobody(function: Any) -> None:
    async with bench(app_of(function)) as at:
        for _ in range(3):
            lease = at.give(function.__name__, timeout_seconds=SECONDS)
            found = str(value(await at.ended(lease)))
            assert lease.job_id in found
            assert "fork" not in found


async def test_a_context_of_a_former_run_or_another_thread_calls_nothing() -> None:
    async with bench(app_of(cpu_handlers.keeps_its_context)) as at:
        first = value(await end_of(at, cpu_handlers.keeps_its_context))
        second = value(await end_of(at, cpu_handlers.keeps_its_context))
        assert at.bodies(Checkpoint) == []
    assert first == ["ctx.step is called outside of the handler's own thread"]
    assert second == ["the run of this context is over: it starts nothing more", *first]


async def test_after_a_call_that_a_signal_interrupts_no_other_is_made() -> None:
    async with bench(app_of(cpu_handlers.is_interrupted), answer=lambda claim: None) as at:
        end = await end_of(at, cpu_handlers.is_interrupted, timeout_seconds=3)
        assert (end.status, end.error) == ("retry", "TimeoutError: ran past its 3 s")
        assert at.bodies(Checkpoint) == []


async def test_half_a_message_ends_the_run_though_another_process_holds_the_connection(
    tmp_path: Path,
) -> None:
    file = tmp_path / "pid"
    given = orjson.dumps({"file": str(file)}).decode()
    try:
        async with bench(app_of(cpu_handlers.dies_while_it_speaks)) as at:
            end = await end_of(at, cpu_handlers.dies_while_it_speaks, input=given)
        assert end.status == "retry"
        assert "ended by SIGKILL" in (end.error or "")
    finally:
        with suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGKILL)


async def test_a_process_that_is_killed_in_a_run_is_told_and_leaves_no_file_open() -> None:
    async with bench(app_of(cpu_handlers.is_killed)) as at:
        await end_of(at, cpu_handlers.is_killed)
        before = open_files()
        for _ in range(3):
            end = await end_of(at, cpu_handlers.is_killed)
            assert (end.status, "SIGKILL" in (end.error or "")) == ("retry", True)
        await asyncio.to_thread(eventually, lambda: open_files() <= before, what="closed files")


async def test_only_as_many_processes_as_can_compute_at_once_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.worker.blocking.parent._MOST_IDLE", 1)
    given = orjson.dumps({"folder": str(tmp_path), "number": 3}).decode()
    async with bench(app_of(cpu_handlers.waits_for_others), slots=3) as at:
        leases = [
            at.give("waits_for_others", timeout_seconds=SECONDS, input=given) for _ in range(3)
        ]
        pids = {value(await at.ended(lease)) for lease in leases}
        await asyncio.to_thread(eventually, lambda: sum(map(lives, pids)) == 1, what="two ends")


async def test_processes_that_another_handler_had_at_once_are_not_kept_beside_those_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker of many handlers, on a machine of many cores, would fill its memory with them."""
    monkeypatch.setattr("streams.worker.blocking.parent._MOST_IDLE", 3)
    monkeypatch.setattr("streams.worker.blocking.parent._IDLE", {})
    functions = (cpu_handlers.waits_for_others, cpu_handlers.waits_for_more)
    pids, kept = set[int](), set[int]()
    async with bench(app_of(*functions), slots=3) as at:
        for function in functions:
            folder = tmp_path / function.__name__
            folder.mkdir()
            given = orjson.dumps({"folder": str(folder), "number": 3}).decode()
            leases = [
                at.give(function.__name__, timeout_seconds=SECONDS, input=given) for _ in range(3)
            ]
            kept = {value(await at.ended(lease)) for lease in leases}
            pids |= kept
        await asyncio.to_thread(eventually, lambda: sum(map(lives, pids)) == 3, what="three ends")
        assert sum(map(lives, kept)) == 2, "the newest, and one of the other handler"


async def test_a_process_that_starts_while_its_run_is_cancelled_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Process] = []
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Slow(Process):
        def __init__(self) -> None:
            loop.call_soon_threadsafe(begun.set)
            super().__init__()
            made.append(self)

    monkeypatch.setattr("streams.worker.blocking.parent.Process", Slow)
    async with bench(app_of(cpu_handlers.double)) as at:
        lease = at.give("double", timeout_seconds=SECONDS)
        await begun.wait()
        at.reply(lease, "cancel", message="no longer needed")
        assert (await at.ended(lease)).status == "cancelled"
        await asyncio.to_thread(eventually, lambda: made, what="the process")
        pid = made[0]._popen.pid
        await asyncio.to_thread(eventually, lambda: not lives(pid), what="its end")


def test_processes_end_with_the_handler_that_has_them() -> None:
    handler, process = InProcess(cpu_handlers.pid, None), Process()
    handler._keep(process)
    pid = process._popen.pid
    del handler, process
    eventually(lambda: not lives(pid), what="its end")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_of_the_worker_ends_no_process_of_it() -> None:
    handler, process = InProcess(cpu_handlers.pid, None), Process()
    handler._keep(process)
    fork = os.fork()
    if not fork:
        del handler
        os._exit(0)
    os.waitpid(fork, 0)
    assert process.is_quiet()
    process.kill()


def lives(pid: int) -> bool:
    with suppress(ProcessLookupError, FileNotFoundError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX"
    return False


def test_one_of_a_script_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_handlers.double, "__module__", "__main__")
    with pytest.raises(ConfigError, match="that can be imported"):
        App("test").job("job", cpu=True)(cpu_handlers.double)

"""What one run of a process does harms no later one, no other tenant, and not the machine."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from support import cpu_handlers
from support.conditions import PATIENCE_SECONDS, eventually
from support.worker_bench import bench

from streams import App
from streams.serde.effect_states import FAILED, UNKNOWN
from streams.serde.records import Ended, Outcome
from streams.worker.blocking import child
from streams.worker.blocking.messages import Returned
from streams.worker.blocking.process import Process

SECONDS = 2 * PATIENCE_SECONDS
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER: orphans go to this process, as to the first one of a container."""

WORKER = """
import sys
from streams.worker.blocking.context import View
from streams.worker.blocking.messages import Task
from streams.worker.blocking.process import Process

view = View("", "", "", 1, {"file": sys.argv[1]}, None, [], None, None, None, None)
Process().exchange(Task("support.cpu_handlers", "keeps_the_interpreter", view, None))
"""


def app_of(function: Any, **given: Any) -> App:
    app = App("test")
    app.job("job", cpu=True, **{"timeout": SECONDS, **given})(function)
    return app


async def end_of(at: Any, **given: Any) -> Ended:
    end: Ended = await at.ended(at.give(**{"timeout_seconds": SECONDS, **given}))
    return end


@pytest.mark.parametrize(
    ("function", "status"),
    [
        (cpu_handlers.fails_after_it_has_sent, UNKNOWN),
        (cpu_handlers.fails_before_it_has_sent, FAILED),
    ],
)
async def test_an_error_of_a_call_inside_an_effect_does_not_prove_that_nothing_was_done(
    function: Any, status: str
) -> None:
    async with bench(app_of(function)) as at:
        assert (await end_of(at)).status == "failed"
        assert [outcome.status for outcome in at.bodies(Outcome)] == [status]


async def test_memory_that_runs_have_filled_fails_no_later_run_for_ever() -> None:
    async with bench(app_of(cpu_handlers.hoards, memory_mb=1_000)) as at:
        statuses = [(await end_of(at)).status for _ in range(12)]
    assert "retry" in statuses, "it is full once"
    assert "retry retry" not in " ".join(statuses)


async def test_what_cannot_be_given_to_a_call_fails_the_job_by_name() -> None:
    async with bench(app_of(cpu_handlers.asks_what_cannot_be_sent)) as at:
        end = await end_of(at)
    assert end.status == "failed"
    assert "ctx.progress" in (end.error or "")
    assert "cannot be pickled" in (end.error or "")


async def test_a_message_that_would_fill_the_workers_memory_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streams.worker.blocking.process.MOST_BYTES", 10)
    async with bench(app_of(cpu_handlers.double)) as at:
        end = await end_of(at)
    assert (end.status, "ProcessEnded" in (end.error or "")) == ("retry", True)


def test_a_value_that_is_too_large_to_be_sent_counts_as_no_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(child, "MOST_BYTES", 1_000)
    assert b"TooLargeToSend" in child._packed(Returned("x" * 1_000))
    assert b"TooLargeToSend" not in child._packed(Returned("x" * 100))


def test_a_process_whose_interpreter_is_kept_ends_with_its_worker(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(file)], env=environment)
    try:
        eventually(lambda: file.exists() and file.read_text(), what="its begin")
        pid = int(file.read_text())
        worker.kill()
        worker.wait()
        eventually(lambda: not lives(pid), what="its end")
    finally:
        worker.kill()
        with suppress(FileNotFoundError, ValueError, ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGKILL)


async def test_programs_that_it_starts_have_the_search_path_of_the_worker_s_own_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tool with an interpreter of its own would import the worker's libraries."""
    monkeypatch.setenv("PYTHONPATH", "/of/their/own")
    async with bench(app_of(cpu_handlers.sees_the_search_path)) as at:
        found = orjson.loads((await end_of(at)).result or "null")
    assert found == ["/of/their/own", sys.path]


SHADOWED = """
import sys
from streams.worker.blocking.context import View
from streams.worker.blocking.messages import Task
from streams.worker.blocking.process import Process

sys.path.insert(0, sys.argv[1])
view = View("", "", "", 1, {"n": 21}, None, [], None, None, None, None)
process = Process()
print(process.exchange(Task("support.cpu_handlers", "double", view, None)))
process.kill()
"""


def test_a_module_beside_the_application_is_not_taken_for_one_that_python_needs_to_start(
    tmp_path: Path,
) -> None:
    for name in ("random", "socket", "tempfile", "structlog", "streams"):
        (tmp_path / f"{name}.py").write_text(f"raise RuntimeError('{name} of the application')")
    environment = {**os.environ, "PYTHONPATH": str(Path(cpu_handlers.__file__).parents[1])}
    command = [sys.executable, "-c", SHADOWED, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "Returned(value=42)" in done.stdout, done.stderr


def test_a_system_that_ends_no_process_by_a_pipe_runs_handlers_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(*_: object) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr("fcntl.fcntl", unknown)
    child._be_ended_with_worker(0)


def test_a_process_whose_end_somebody_else_was_told_leaves_no_file_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As by `os.wait`, or with SIGCHLD ignored, in another handler of the worker."""
    waitid, before = os.waitid, len(os.listdir("/proc/self/fd"))

    def told_to_another(kind: int, pid: int, flags: int) -> None:
        waitid(kind, pid, os.WEXITED)
        raise ChildProcessError(10, "No child processes")

    monkeypatch.setattr(os, "waitid", told_to_another)
    Process().kill()
    eventually(lambda: len(os.listdir("/proc/self/fd")) <= before, what="closed files")


@pytest.fixture
def first_process() -> Iterator[None]:
    libc = ctypes.CDLL(None)
    libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    yield
    libc.prctl(_SUBREAPER, 0, 0, 0, 0)


@pytest.mark.usefixtures("first_process")
async def test_no_dead_process_stays_of_what_a_killed_handler_had_started(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    given = orjson.dumps({"file": str(file)}).decode()
    async with bench(app_of(cpu_handlers.spins)) as at:
        lease = at.give(timeout_seconds=SECONDS, input=given)
        begun = partial(eventually, lambda: file.exists() and file.read_text(), what="its begin")
        pids = str(await asyncio.to_thread(begun)).split()
        at.reply(lease, "cancel", message="no longer needed")
        assert (await at.ended(lease)).status == "cancelled"
        await at.idle()
    eventually(lambda: not any(Path("/proc", pid).exists() for pid in pids), what="their ends")


def lives(pid: int) -> bool:
    with suppress(ProcessLookupError, FileNotFoundError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX"
    return False

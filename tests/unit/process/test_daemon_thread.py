"""A daemon thread keeps the context that it was made in, and never fails silently."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from queue import SimpleQueue

import pytest
import structlog
from structlog.testing import capture_logs

from streams.process.daemon_thread import DaemonThread, in_daemon_thread


def _breaks() -> None:
    raise ValueError("broken")


def test_a_failure_is_handed_over() -> None:
    failures = SimpleQueue[Exception]()
    thread = DaemonThread("reader", _breaks, failures.put)
    thread.start()
    assert str(failures.get(timeout=10)) == "broken"


def test_a_failure_that_nobody_takes_is_logged() -> None:
    with capture_logs() as lines:
        thread = DaemonThread("reader", _breaks)
        thread.start()
        thread.stop(10)
    assert [(line["log_level"], line["thread"]) for line in lines] == [("error", "reader")]


def test_a_thread_has_the_context_that_it_was_made_in_and_ends_when_told_to() -> None:
    seen = SimpleQueue[object]()

    def body() -> None:
        seen.put(structlog.contextvars.get_contextvars())
        thread.stopping.wait()
        seen.put("ended")

    with structlog.contextvars.bound_contextvars(stage="dedup"):
        thread = DaemonThread("reader", body)
    thread.start()
    assert seen.get(timeout=10) == {"stage": "dedup"}
    thread.stop()
    assert seen.get(block=False) == "ended"


async def test_a_value_that_comes_together_with_the_cancelling_is_late_and_not_lost() -> None:
    late, others = list[str](), set(threading.enumerate())
    task = asyncio.create_task(in_daemon_thread(lambda: "value", late.append))
    await asyncio.sleep(0)
    for thread in set(threading.enumerate()) - others:
        thread.join(10)  # its answer is the next thing that the loop does
    asyncio.get_running_loop().call_soon(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert late == ["value"]


async def test_the_arguments_of_a_call_are_not_shown() -> None:
    """They may be large, or ask a database: that would hold the event loop up."""

    class Rows:
        def __repr__(self) -> str:
            raise AssertionError("somebody shows the rows")

    assert await in_daemon_thread(partial(lambda rows: 1, Rows())) == 1

"""A daemon thread keeps the context that it was made in, and never fails silently."""

from __future__ import annotations

from queue import SimpleQueue

import structlog
from structlog.testing import capture_logs

from streams.process.daemon_thread import DaemonThread


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

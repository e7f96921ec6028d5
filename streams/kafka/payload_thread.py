"""The thread of a `PayloadReader` in a process that ends if the reader fails."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog

from streams.errors import StageFailed
from streams.kafka.payload_reader import PayloadReader
from streams.process.daemon_thread import DaemonThread

log = structlog.get_logger(__name__)

Failed = Callable[[Exception], object]
"""Called, from the thread, with an error after which the process must end."""


def payload_thread(payloads: PayloadReader, failed: Failed) -> DaemonThread:
    """The thread that runs a reader, not started yet."""
    thread = DaemonThread(
        "payloads", lambda: payloads.run(thread.stopping), partial(_no_bodies, failed)
    )
    return thread


def _no_bodies(failed: Failed, error: Exception) -> None:
    """End the process: without the reader, requests for bodies would never end."""
    log.exception("the reader of payloads failed")
    failed(
        StageFailed(
            f"no body can be read any more ({type(error).__name__}: {error}): the process "
            "ends, and its supervisor must start it again"
        )
    )

"""Looks at something on a thread of its own, for a limited time, and never raises.

A broker that accepts connections and never answers, or a disk that hangs, costs its own look alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from confluent_kafka import KafkaError, KafkaException

from streams.doctor.finding import Check, Finding, Unseen
from streams.errors import TidegateError
from streams.kafka.failures import DENIED
from streams.process.daemon_thread import DaemonThread

ANSWER_SECONDS = 5.0
"""How long a broker may take to answer one question."""

T = TypeVar("T")


class Look(Generic[T]):
    """A look that is under way from the start; `right` is what a user needs for it on Kafka."""

    def __init__(
        self, what: str, look: Callable[[], T], right: str = "", seconds: float = 2 * ANSWER_SECONDS
    ) -> None:
        self._what = what
        self._look = look
        self._right = right
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._answer: SimpleQueue[T | Unseen] = SimpleQueue()
        DaemonThread(f"looks at {what}", self._run).start()

    def seen(self) -> T | Unseen:
        """What was seen; called once. It waits until the look's time is over at most."""
        try:
            return self._answer.get(timeout=max(0.0, self._until - time.monotonic()))
        except Empty:
            return Unseen(f"{self._what}: no answer came within {self._seconds:g} s")

    def _run(self) -> None:
        try:
            self._answer.put(self._look())
        except Exception as error:
            self._answer.put(unseen(error, self._what, self._right))


def judged(
    check: Check, judge: Callable[[T], Iterable[Finding]], seen: T | Unseen
) -> list[Finding]:
    """What a check says; it is skipped if nothing was seen, or if the check itself fails."""
    if isinstance(seen, Unseen):
        return [check.unseen(seen)]
    try:
        return list(judge(seen))
    except Exception as error:
        return [check.unseen(unseen(error, check.name))]


def unseen(error: Exception, what: str, right: str = "") -> Unseen:
    """Why something could not be looked at."""
    cause = error.args[0] if isinstance(error, KafkaException) and error.args else None
    if isinstance(cause, KafkaError):
        if cause.code() in DENIED:
            return lacking(right or f"to see {what}")
        return Unseen(f"{what}: {cause.str()} ({cause.name()})")
    if isinstance(error, TidegateError | OSError):
        return Unseen(f"{what}: {error}")
    return Unseen(f"{what}: the check itself failed ({type(error).__name__}: {error})", _REPORT)


def lacking(right: str) -> Unseen:
    """A look that Kafka does not allow this user."""
    return Unseen(
        f"the user on Kafka lacks the right {right}",
        "grant it, or run the doctor as a user that may describe everything",
    )


_REPORT = "report this as a fault of Tidegate"

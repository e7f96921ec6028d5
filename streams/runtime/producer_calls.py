"""Calls of a transactional producer, each repeated until it is answered or given up."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException

from streams.kafka.abandonable_call import AbandonableThread, Hung
from streams.kafka.failures import REFUSED, Outage, Verdict, classify

CALL_SECONDS = 5.0
"""How long one call may take."""


class Stopped(Exception):
    """The process was told to stop while Kafka did not answer."""


class CallFailed(Exception):
    """A call failed; `verdict` says what to do about it."""

    def __init__(self, verdict: Verdict, error: KafkaError) -> None:
        super().__init__(f"{error.name()}: {error.str()}")
        self.verdict = verdict
        self.error = error
        self.proven = error.code() in REFUSED


class ProducerCalls:
    """The calls of one producer whose transactions may last so many seconds."""

    def __init__(self, seconds: float, outage: Outage, stopping: Callable[[], bool]) -> None:
        self._seconds = seconds
        self._outage = outage
        self._stopping = stopping
        self._thread = AbandonableThread()
        self.begun = time.monotonic()

    def begin(self) -> None:
        """Count the time of a transaction from now on."""
        self.begun = time.monotonic()

    def leave(self) -> None:
        """Let a call that hangs go on alone: its producer is not used any more."""
        self._thread.leave()

    @property
    def outlived(self) -> bool:
        """Whether the coordinator has given up the transaction."""
        return time.monotonic() - self.begun > self._seconds

    def once(
        self, call: Callable[[], object], judge: Callable[[KafkaError], Verdict] = classify
    ) -> None:
        """Make a call.

        Raises:
            CallFailed: it failed.
        """
        try:
            call()
        except KafkaException as error:
            raise CallFailed(judge(error.args[0]), error.args[0]) from error
        except Hung as hung:
            timed_out = KafkaError(KafkaError._TIMED_OUT, "the call does not return")
            self._outage.failed(timed_out)
            raise CallFailed(Verdict.RECREATE, timed_out) from hung

    def resume(self, call: Callable[[], object]) -> None:
        """Repeat a call until it is answered, or the coordinator has given up the transaction.

        In the second case the outcome is not guessed: the next producer's start settles it, and the
        group's offsets and the changelogs show it.

        Raises:
            CallFailed: it failed.
            Stopped: told to stop before Kafka answered.
        """
        while True:
            try:
                return self.once(call)
            except CallFailed as failed:
                if failed.verdict is not Verdict.RETRY:
                    raise
                self._outage.failed(failed)
                if self._stopping():
                    raise Stopped from failed
                if self.outlived:
                    raise

    def commit(self, call: Callable[[], object], meanwhile: Callable[[], object]) -> None:
        """`resume` a commit, and do something else meanwhile."""
        self._watched(call, self.begun + self._seconds + CALL_SECONDS, meanwhile)

    def watched(self, call: Callable[[], object]) -> None:
        """`resume` a call that may hang."""
        self._watched(call, time.monotonic() + CALL_SECONDS, lambda: None)

    def _watched(
        self, call: Callable[[], object], due: float, meanwhile: Callable[[], object]
    ) -> None:
        self.resume(lambda: self._thread.call(call, lambda: time.monotonic() > due, meanwhile))

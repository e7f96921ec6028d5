"""Records are sent until they are acknowledged, or until it is too late."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from structlog.testing import capture_logs
from support.memory_transport import MemoryTransport

from streams.errors import LeaseLost, RecordTooLarge
from streams.worker.transport.contract import Done
from streams.worker.transport.retrying_sender import Letter, RetryingSender

LETTER = Letter("jobs.commands", b"acme", b"value", 1, "a test's record")


async def test_a_refused_record_is_sent_again_as_it_was() -> None:
    transport = MemoryTransport()
    transport.failures = 2
    sender = RetryingSender(transport, time.monotonic)
    await sender.send(LETTER, lambda: float("inf"))
    (sent,) = transport.sent
    assert (sent.topic, sent.key, sent.value, sent.partition) == (
        "jobs.commands",
        b"acme",
        b"value",
        1,
    )
    assert transport.failures == 0


async def test_after_the_deadline_nothing_is_sent_and_the_sender_hears_of_it() -> None:
    transport = MemoryTransport()
    sender = RetryingSender(transport, lambda: 10.0)
    with pytest.raises(LeaseLost, match="a test's record"):
        await sender.send(LETTER, lambda: 10.0)
    assert transport.sent == []


async def test_the_deadline_is_asked_again_before_each_repetition() -> None:
    transport, deadlines = MemoryTransport(), iter([1.0, -1.0])
    transport.failures = 99
    sender = RetryingSender(transport, lambda: 0.0)
    with pytest.raises(LeaseLost):
        await sender.send(LETTER, lambda: next(deadlines))
    assert transport.failures == 98


@pytest.mark.parametrize(
    ("deadline", "longest"), [(float("inf"), 30.0), (1_000.0, 0.2)], ids=["none", "a lease's"]
)
async def test_a_record_without_a_deadline_is_repeated_ever_more_slowly(
    deadline: float, longest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its topic may be missing, or the right to write to it, until somebody sees the log."""
    transport, pauses = MemoryTransport(), list[float]()
    transport.failures = 20

    class AtOnce:
        def __init__(self, seconds: float, function: Callable[[], None]) -> None:
            pauses.append(seconds)
            self.start = function
            self.daemon = False

    monkeypatch.setattr(threading, "Timer", AtOnce)
    await RetryingSender(transport, lambda: 0.0).send(LETTER, lambda: deadline)
    assert (pauses[0], max(pauses), pauses) == (0.2, longest, sorted(pauses))


class Narrow(MemoryTransport):
    """A transport whose topics take little."""

    most = 3
    refusals = 0

    def send(self, topic: str, key: bytes, value: bytes, *, partition: int, done: Done) -> None:
        if len(value) > self.most:
            self.refusals += 1
            done(RecordTooLarge("dlq: the message is too large"))
            return
        super().send(topic, key, value, partition=partition, done=done)


async def test_a_record_that_is_too_large_goes_in_its_shorter_form() -> None:
    transport = Narrow()
    sender = RetryingSender(transport, time.monotonic)
    await sender.send(replace(LETTER, shorter=b"v"), lambda: float("inf"))
    assert [sent.value for sent in transport.sent] == [b"v"]


async def test_a_record_that_is_too_large_in_every_form_is_given_up_in_the_log() -> None:
    transport = Narrow()
    transport.most = 0
    sender = RetryingSender(transport, time.monotonic)
    with capture_logs() as lines, pytest.raises(RecordTooLarge):
        await sender.send(replace(LETTER, shorter=b"v"), lambda: float("inf"))
    assert (transport.sent, transport.refusals) == ([], 2)
    assert [(line["log_level"], line["record"]) for line in lines] == [("error", "a test's record")]

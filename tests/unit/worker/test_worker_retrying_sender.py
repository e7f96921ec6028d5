"""Records are sent until they are acknowledged, or until it is too late."""

from __future__ import annotations

import time

import pytest

from streams.errors import LeaseLost
from streams.worker.transport.memory import MemoryTransport
from streams.worker.transport.retrying_sender import Letter, RetryingSender

LETTER = Letter("jobs.commands", b"acme", b"value", 1, "a test's record")


async def test_a_refused_record_is_sent_again_as_it_was() -> None:
    transport = MemoryTransport()
    transport.failures = 2
    sender = RetryingSender(transport, time.monotonic)
    await sender.send(LETTER, lambda: float("inf"))
    (sent,) = transport.sent
    assert (sent.topic, sent.key, sent.value, sent.partition) == (
        "jobs.commands", b"acme", b"value", 1,
    )  # fmt: skip
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

"""The awaited producer: what it does with errors."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from support.garbage import large, left_behind

from streams.errors import KafkaUnavailable
from streams.kafka.clients import AwaitedProducer
from streams.settings import Settings


class Refusing:
    """A producer that takes nothing."""

    def __init__(self, error: KafkaError) -> None:
        self._error = error

    def produce(self, *arguments: Any, **options: Any) -> None:
        raise KafkaException(self._error)


@pytest.fixture
def terminated() -> Iterator[list[int]]:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: seen.append(number))
    yield seen
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("fatal", [False, True])
async def test_only_a_fatal_error_ends_the_process(terminated: list[int], fatal: bool) -> None:
    producer = AwaitedProducer(Settings(bootstrap="127.0.0.1:1"), log_level=0)
    error = KafkaError(KafkaError._FATAL, "out of order", fatal=fatal)
    producer._producer = Refusing(error)  # type: ignore[assignment]
    with pytest.raises(KafkaUnavailable, match="events"):
        await producer.send("events", None, b"x", partition=0)
    assert terminated == ([signal.SIGTERM] if fatal else [])


async def test_a_record_that_is_not_acknowledged_is_not_kept() -> None:
    impatient = {"message.timeout.ms": 50, "log_level": 0}
    producer = AwaitedProducer(Settings(bootstrap="127.0.0.1:1"), **impatient)

    async def refused() -> bool:
        try:
            await producer.send("payloads", None, bytes(100_000), partition=0)
        except KafkaUnavailable:
            return True
        return False

    with left_behind() as garbage:
        assert await refused()
        await asyncio.sleep(0)  # the loop itself holds what it has just resumed
    assert large(garbage) == []

"""Who serves by what it knows of tenants ends when it can learn no more of them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError
from structlog.testing import capture_logs

from streams.errors import ConfigError, PoisonRecord, StageFailed
from streams.kafka import tail
from streams.kafka.payload_reader import PayloadReader
from streams.kafka.payload_thread import payload_thread
from streams.process.shutdown import ProcessEnd
from streams.settings import Settings
from streams.tenants.follower import POSITION, TenantsFollower
from streams.topology.load import load

OLDEST = 7
"""The offset of the first record that the topic has."""


class Message:
    """A record, or with a code what Kafka says of the partition."""

    def __init__(self, offset: int = 41, code: int = 0) -> None:
        self._offset, self._error = offset, KafkaError(code) if code else None

    def topic(self) -> str:
        return "tenants"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return self._error

    def key(self) -> bytes:
        return b"key"

    def value(self) -> bytes:
        return b"value"


class Consumer:
    """Gives one record, then breaks."""

    width = 4

    def __init__(self, _: dict[str, Any]) -> None:
        self.messages = [Message()]

    def list_topics(self, topic: str = "tenants", timeout: float = 0) -> Any:
        found = SimpleNamespace(error=None, partitions=range(self.width))
        return SimpleNamespace(topics={topic: found})

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        return OLDEST, 1_000

    def incremental_assign(self, places: Any) -> None: ...

    def incremental_unassign(self, places: Any) -> None: ...

    def position(self, places: Any) -> Any:
        return places

    def poll(self, timeout: float) -> Message:
        return self.messages.pop(0)

    def consume(self, _: int, __: float) -> list[Message]:
        return []

    def close(self) -> None: ...


def test_a_follower_that_breaks_says_so_and_one_bad_record_does_not_break_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tail, "Consumer", Consumer)
    failures, refused = SimpleQueue[Exception](), list[PoisonRecord]()

    def fold(key: bytes | None, value: bytes | None) -> None:
        raise KeyError("of this record alone")

    follower = TenantsFollower(
        Settings(), load(), "worker", fold, lambda _, error: refused.append(error), failures.put
    )
    follower.start()
    failure = failures.get(timeout=10)
    assert [error.reason for error in refused] == ["unusable"]
    assert isinstance(failure, StageFailed)
    assert "IndexError: pop from empty list" in str(failure)


@pytest.mark.parametrize("process", ["ingress", "operator", "pipeline", "delivery"])
def test_another_number_of_partitions_than_declared_ends_the_process_and_reads_nothing(
    monkeypatch: pytest.MonkeyPatch, process: str
) -> None:
    monkeypatch.setattr(Consumer, "width", 1)
    monkeypatch.setattr(tail, "Consumer", Consumer)
    failures, known = SimpleQueue[Exception](), list[object]()
    follower = TenantsFollower(
        Settings(),
        load(),
        process,
        lambda *told: known.append(told),
        lambda *_: None,
        failures.put,
    )
    follower.start()
    failure = failures.get(timeout=10)
    assert isinstance(failure, ConfigError)
    assert str(failure).startswith(f"{process}: tenants has 1 partitions, topology.yaml says 4: ")
    assert not known
    assert not follower.ready


class Followed:
    """What a follower knows of a topic that a consumer plays, and where it began to read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *messages: Message) -> None:
        self.known: list[bytes | None] = []
        self.begun: list[int] = []
        ended = SimpleQueue[Exception]()
        monkeypatch.setattr(tail, "_AGAIN_SECONDS", 0.0)
        monkeypatch.setattr(tail, "Consumer", lambda config: self._playing(config, messages))
        follower = TenantsFollower(
            Settings(),
            load(),
            "ingress",
            lambda key, _: self.known.append(key),
            lambda *_: None,
            ended.put,
        )
        with capture_logs() as self.lines:
            follower.start()
            ended.get(timeout=10)

    def _playing(self, config: dict[str, Any], messages: Sequence[Message]) -> Consumer:
        consumer = Consumer(config)
        consumer.messages = list(messages)
        consumer.incremental_assign = lambda places: self.begun.extend(  # type: ignore[method-assign]
            place.offset for place in places if place.partition == 3
        )
        return consumer


def test_a_right_that_is_taken_away_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = Message(42, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    found = Followed(monkeypatch, denied, denied, Message(), denied)
    told = [line["event"] for line in found.lines]
    assert told.count("tenants cannot be read: what is known of them ages") == 2
    assert found.known == [b"key"]
    assert POSITION.labels(3)._value.get() == 42


def test_a_follower_stands_still_before_a_damaged_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """From its beginning on it would take secrets that ended long ago for present ones."""
    damaged = Message(99, KafkaError._BAD_MSG)
    lost = Message(7_611_410_075_462_884_242, KafkaError._AUTO_OFFSET_RESET)
    found = Followed(monkeypatch, Message(), damaged, lost)
    assert found.begun == [OLDEST, 42], "the damaged bytes named a wrong offset"
    assert found.known == [b"key"]
    assert "damaged batch at offset 99" in found.lines[0]["reason"]


def test_what_is_left_of_a_topic_that_lost_records_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    purged = Message(42, KafkaError.OFFSET_OUT_OF_RANGE)
    assert Followed(monkeypatch, Message(), purged).begun == [OLDEST, OFFSET_BEGINNING]


def test_a_reader_of_payloads_that_breaks_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    failures, payloads = (
        SimpleQueue[Exception](),
        PayloadReader(Settings(bootstrap="127.0.0.1:1"), "worker"),
    )

    def breaks() -> None:
        raise RuntimeError("of the client")

    monkeypatch.setattr(payloads, "step", breaks)
    payload_thread(payloads, failures.put).start()
    assert isinstance(failures.get(timeout=10), StageFailed)


async def test_a_process_ends_with_what_a_part_of_it_could_not_go_on_after() -> None:
    end = ProcessEnd()
    await asyncio.to_thread(end.failed, StageFailed("stands still"))
    await asyncio.to_thread(end.failed, StageFailed("a later one"))
    with pytest.raises(StageFailed, match="stands still"):
        await end.wait()


async def test_a_process_that_is_asked_to_end_does() -> None:
    end = ProcessEnd()
    os.kill(os.getpid(), signal.SIGTERM)
    await end.wait()

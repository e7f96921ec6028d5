"""Who serves by what it knows of tenants ends when it can learn no more of them."""

from __future__ import annotations

import asyncio
import os
import signal
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from structlog.testing import capture_logs

from streams.errors import ConfigError, PoisonRecord, StageFailed
from streams.kafka.payload_reader import PayloadReader
from streams.kafka.payload_thread import payload_thread
from streams.process.shutdown import ProcessEnd
from streams.settings import Settings
from streams.tenants import follower as tenants_follower
from streams.tenants.follower import POSITION, TenantsFollower
from streams.topology.load import load


class Message:
    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 41

    def error(self) -> None:
        return None

    def key(self) -> bytes:
        return b"key"

    def value(self) -> bytes:
        return b"value"


class Consumer:
    """Gives one record, then breaks."""

    def __init__(self, _: dict[str, Any]) -> None:
        self.messages = [Message()]

    def list_topics(self, topic: str = "tenants", timeout: float = 0) -> Any:
        found = SimpleNamespace(error=None, partitions=[0])
        return SimpleNamespace(topics={topic: found})

    def assign(self, _: Any) -> None: ...

    def poll(self, timeout: float) -> Message:
        return self.messages.pop()

    def close(self) -> None: ...


def test_a_follower_that_breaks_says_so_and_one_bad_record_does_not_break_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tenants_follower, "Consumer", Consumer)
    failures, refused = list[Exception](), list[PoisonRecord]()

    def fold(key: bytes | None, value: bytes | None) -> None:
        raise KeyError("of this record alone")

    follower = TenantsFollower(
        Settings(), load(), "worker", fold, lambda _, error: refused.append(error), failures.append
    )
    follower.start()
    follower.stop()
    assert [error.reason for error in refused] == ["unusable"]
    (failure,) = failures
    assert isinstance(failure, StageFailed)
    assert "IndexError: pop from empty list" in str(failure)


@pytest.mark.parametrize("process", ["ingress", "operator", "worker-default", "delivery"])
def test_another_number_of_partitions_than_declared_ends_the_process_and_reads_nothing(
    monkeypatch: pytest.MonkeyPatch, process: str
) -> None:
    monkeypatch.setattr(tenants_follower, "Consumer", Consumer)
    failures, known = list[Exception](), list[object]()
    follower = TenantsFollower(
        Settings(),
        load(),
        process,
        lambda *told: known.append(told),
        lambda *_: None,
        failures.append,
    )
    follower.start()
    follower.stop()
    (failure,) = failures
    assert isinstance(failure, ConfigError)
    assert str(failure).startswith(f"{process}: tenants has 1 partitions, topology.yaml says 4: ")
    assert not known
    assert not follower.ready


def test_a_right_that_is_taken_away_is_told_once() -> None:
    known: list[bytes | None] = []
    follower = TenantsFollower(
        Settings(bootstrap="127.0.0.1:1"),
        load(),
        "ingress",
        lambda key, _: known.append(key),
        lambda *_: None,
        lambda _: None,
    )
    error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    denied: Any = SimpleNamespace(error=lambda: error, partition=lambda: 3)
    with capture_logs() as lines:
        for message in (denied, denied, Message(), denied):
            follower._take(message, set())  # type: ignore[arg-type]
    assert [line["event"] for line in lines] == [
        "tenants cannot be read: what is known of them ages"
    ] * 2
    assert known == [b"key"]
    assert POSITION.labels(3)._value.get() == 42


def test_a_follower_stands_still_before_a_damaged_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """From its beginning on it would take secrets that ended long ago for present ones."""
    monkeypatch.setattr(tenants_follower, "_AGAIN_SECONDS", 0.0)
    begun = list[tuple[int, int]]()

    class Damaging(Consumer):
        def __init__(self, config: dict[str, Any]) -> None:
            super().__init__(config)
            error = KafkaError(KafkaError._BAD_MSG, "checksum")
            damaged: Any = SimpleNamespace(
                error=lambda: error, topic=lambda: "tenants", partition=lambda: 3, offset=lambda: 99
            )
            self.messages = [Message(), damaged, Message()]

        def incremental_unassign(self, places: Any) -> None:
            begun.append((places[0].partition, -1))

        def incremental_assign(self, places: Any) -> None:
            begun.append((places[0].partition, places[0].offset))

    monkeypatch.setattr(tenants_follower, "Consumer", Damaging)
    monkeypatch.setattr(TenantsFollower, "_refuse_other_counts", lambda *_: None)
    known: list[bytes | None] = []
    follower = TenantsFollower(
        Settings(),
        load(),
        "worker",
        lambda key, _: known.append(key),
        lambda *_: None,
        lambda _: None,
    )
    with capture_logs() as lines:
        follower.start()
        follower.stop()
    assert begun == [(3, -1), (3, 42)] * 2, "the last record has an offset that was read before"
    assert known == [b"key"]
    assert "damaged batch at offset 99" in lines[0]["reason"]


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

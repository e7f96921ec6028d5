"""What a Kafka client cannot go on after ends the worker: a new process has new clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from support.conditions import eventually

from streams.errors import Fenced, KafkaUnavailable
from streams.kafka import tail
from streams.serde.records import PayloadRef
from streams.settings import Settings
from streams.worker.transport import kafka as kafka_transport
from streams.worker.transport import work_reader
from streams.worker.transport.contract import Incoming
from streams.worker.transport.kafka import KafkaTransport
from streams.worker.worker import WorkerSpec

FATAL = KafkaError(KafkaError._FATAL, "out of order sequence", fatal=True)
FENCED = KafkaError(KafkaError._FENCED, "fenced")
PASSING = KafkaError(KafkaError._ALL_BROKERS_DOWN, "down")


class Inbox:
    def __init__(self) -> None:
        self.failures: list[Exception] = []

    def assigned(self, partition: int | None) -> None: ...

    def leased(self, record: Incoming) -> None: ...

    def replied(self, record: Incoming) -> None: ...

    def failed(self, error: Exception) -> None:
        self.failures.append(error)


class Producer:
    """Refuses or fails what it is given, as the test says."""

    raised: Exception | None = None
    delivered: KafkaError | None = None

    def __init__(self, config: dict[str, Any]) -> None:
        self.error_cb: Callable[[KafkaError], None] = config["error_cb"]

    def produce(self, *_: Any, on_delivery: Callable[[KafkaError | None, Any], None]) -> None:
        if self.raised:
            raise self.raised
        on_delivery(self.delivered, None)

    def poll(self, timeout: float) -> int:
        return 0

    def flush(self, timeout: float) -> int:
        return 0


class Message:
    def __init__(self, error: KafkaError) -> None:
        self._error = error

    def error(self) -> KafkaError:
        return self._error

    def topic(self) -> None: ...

    def partition(self) -> int:
        return -1

    offset = partition


class Consumer:
    """Gives one error, then nothing."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.errors: list[KafkaError] = []

    def poll(self, timeout: float) -> Message | None:
        return Message(self.errors.pop()) if self.errors else None

    def consume(self, most: int, timeout: float) -> list[Message]:
        return []

    def assignment(self) -> list[Any]:
        return []

    def subscribe(self, *_: Any, **__: Any) -> None: ...

    def incremental_assign(self, _: Any) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def transport(monkeypatch: pytest.MonkeyPatch) -> KafkaTransport:
    monkeypatch.setattr(kafka_transport, "Producer", Producer)
    for module in (tail, work_reader):
        monkeypatch.setattr(module, "Consumer", Consumer)
    return KafkaTransport(Settings(), WorkerSpec("w1"), width=4)


@pytest.mark.parametrize(
    ("raised", "delivered", "ends"),
    [
        (KafkaException(FATAL), None, True),
        (KafkaException(FENCED), None, True),
        (None, FATAL, True),
        (KafkaException(PASSING), None, False),
        (BufferError("queue full"), None, False),
        (None, PASSING, False),
        (None, None, False),
    ],
)
def test_a_fatal_error_of_the_producer_ends_the_process(
    transport: KafkaTransport, raised: Exception | None, delivered: KafkaError | None, ends: bool
) -> None:
    inbox, answers = Inbox(), list[Exception | None]()
    producer: Any = transport._producer
    producer.raised, producer.delivered = raised, delivered
    transport.start(inbox)
    transport.send("jobs.commands", b"k", b"v", partition=0, done=answers.append)
    transport.close()
    assert [isinstance(a, KafkaUnavailable) for a in answers] == [bool(raised or delivered)]
    assert [type(error) for error in inbox.failures] == ([Fenced] if ends else [])
    if ends:
        assert "cannot go on" in str(inbox.failures[0])


def test_a_fatal_error_is_heard_while_nothing_is_sent(transport: KafkaTransport) -> None:
    inbox = Inbox()
    transport.start(inbox)
    producer: Any = transport._producer
    producer.error_cb(PASSING)
    assert inbox.failures == []
    producer.error_cb(FATAL)
    transport.close()
    assert len(inbox.failures) == 1


@pytest.mark.parametrize("reader", ["replies", "work", "payloads"])
def test_a_fatal_error_of_a_consumer_ends_the_process(
    transport: KafkaTransport, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(Consumer):
        def __init__(self, config: dict[str, Any]) -> None:
            super().__init__(config)
            self.errors = [FATAL, PASSING]

    module = {"replies": tail, "work": work_reader, "payloads": tail}[reader]
    monkeypatch.setattr(module, "Consumer", Failing)
    transport = KafkaTransport(Settings(), WorkerSpec("w1"), width=4)
    if reader == "payloads":
        transport.fetch(PayloadRef(0, (1,), 1, "k"))
    inbox = Inbox()
    transport.start(inbox)
    eventually(lambda: inbox.failures, what="the transport failed")
    transport.close()

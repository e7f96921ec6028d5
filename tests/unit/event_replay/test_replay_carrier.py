"""What the carrier of replays asks of the process that it runs in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from support.played_consumer import PlayedMessage

from streams.api.read_model.database import Database
from streams.errors import KafkaUnavailable
from streams.event_reader import follow as following
from streams.event_reader.scan import Scan
from streams.event_reader.selection import Selection
from streams.event_reader.span import Span
from streams.event_replay import sink as sinks
from streams.event_replay.sink import Sink
from streams.kafka import carrier as carrying
from streams.kafka import tail as tails
from streams.kafka.carrier import Carrier
from streams.operator.run import _closed
from streams.settings import Settings


class Gone:
    """A client whose broker died; it notes whether a standstill would be noticed as it closes."""

    watched: list[bool]

    def __init__(self, _: object) -> None: ...

    def subscribe(self, *_: object, **__: object) -> None: ...

    def incremental_assign(self, _: object) -> None: ...

    def incremental_unassign(self, _: object) -> None: ...

    def poll(self, _: object) -> PlayedMessage:
        return self.consume()[1]

    def consume(self, *_: object) -> list[PlayedMessage]:
        codes = KafkaError._ALL_BROKERS_DOWN, KafkaError.TOPIC_AUTHORIZATION_FAILED
        return [PlayedMessage(0, 0, None, code) for code in codes]

    def position(self, places: list[Any]) -> list[Any]:
        return places

    def close(self) -> None:
        self.watched.append("standstill" in {thread.name for thread in threading.enumerate()})


class Idle:
    partitions = ()

    def release(self, _: object, **__: object) -> None: ...


def of_a_process() -> None:
    with suppress(KafkaException):
        Carrier(Settings(), "replays", Idle, lambda: True)._carry()  # type: ignore[arg-type]


def of_a_scan() -> None:
    batches = Scan(Settings(), {0: Span(0, 0, 3)}, Selection()).batches()
    next(batches)
    batches.close()


def of_a_tail() -> None:
    with suppress(KafkaUnavailable):
        next(following.follow(Settings(), {0: 0}, Selection()))


@pytest.mark.parametrize("close", [of_a_process, of_a_scan, of_a_tail])
def test_a_client_that_never_closes_ends_the_process(
    close: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread carries all replays: it would stand still without a word."""
    monkeypatch.setattr(carrying, "Consumer", Gone)
    monkeypatch.setattr(tails, "Consumer", Gone)
    Gone.watched = []
    close()
    assert Gone.watched == [True]


def test_no_tenant_is_open_because_its_row_is_still_to_be_read(tmp_path: Path) -> None:
    """The read model may be rebuilt at any time, and is empty at first."""
    database = Database(tmp_path / "read_model.sqlite")
    database.open_writer().close()
    with pytest.raises(KafkaUnavailable, match="has not read its topics to their end"):
        _closed(database, lambda: False, "acme")
    assert _closed(database, lambda: True, "acme") is None


class PlayedProducer:
    """The first one fails for good at its third record, as after OUT_OF_ORDER_SEQUENCE_NUMBER."""

    made: list[PlayedProducer]

    def __init__(self, _: object) -> None:
        self.made.append(self)
        self.records_until_fault = 2 if len(self.made) == 1 else 100

    def produce(self, *_: object, **__: object) -> None:
        if self.records_until_fault == 0:
            raise KafkaException(KafkaError(KafkaError._FATAL))
        self.records_until_fault -= 1

    def flush(self, _: float) -> int:
        return 0


def test_a_producer_that_has_failed_for_good_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "Producer", PlayedProducer)
    PlayedProducer.made = []
    sink = Sink(Settings())
    for _ in range(2):
        sink.send("jobs.commands", b"acme", b"x", 0)
    with pytest.raises(KafkaUnavailable):
        sink.send("jobs.commands", b"acme", b"x", 0)
    sink.rest()
    sink.send("jobs.commands", b"acme", b"x", 0)
    sink.flush()
    assert len(PlayedProducer.made) == 2

"""When a reader that writes to topics takes a new producer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from streams.event_reader import topic_sink
from streams.event_reader.handling import Part
from streams.event_reader.sinks import Moved
from streams.event_reader.topic_sink import KafkaSink


class Recorded:
    """A producer that remembers what it was asked; the group refuses its positions if `moved`."""

    made: ClassVar[list[Recorded]] = []
    moved = False

    def __init__(self, _: object) -> None:
        self.asked: list[str] = []
        self.made.append(self)

    def __getattr__(self, name: str) -> Any:
        def asked(*_: object) -> None:
            self.asked.append(name)
            if name == "send_offsets_to_transaction" and Recorded.moved:
                raise KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))

        return asked


def test_a_producer_that_aborted_begins_no_further_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would number its next record like one that it dropped and the broker has stored."""
    monkeypatch.setattr(topic_sink, "Producer", Recorded)
    monkeypatch.setattr(Recorded, "made", [])
    group = cast(Consumer, SimpleNamespace(consumer_group_metadata=lambda: None))
    sink, part = KafkaSink("one"), Part(0, None, 1, ())
    sink.open("orders", "events", {})
    monkeypatch.setattr(Recorded, "moved", True)
    with pytest.raises(Moved):
        sink.write(group, part, lambda *_: None)
    assert len(Recorded.made) == 1, "a process that was replaced must not fence its successor"
    monkeypatch.setattr(Recorded, "moved", False)
    for _ in range(2):
        assert sink.write(group, part, lambda *_: None) == 1
    assert ["abort_transaction" in each.asked for each in Recorded.made] == [True, False]

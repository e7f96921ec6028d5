"""A header whose name is not UTF-8 costs a record its headers, and no reader its life."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Message
from support.dispatching import envelope
from support.odd_headers import messages_with_headers

from streams.delivery.reading import record_of
from streams.event_reader.scan import found_in
from streams.kafka.failures import Outage
from streams.runtime import source as module
from streams.runtime.source import Source
from streams.serde.codec import ENVELOPE
from streams.settings import Settings

VALUE = ENVELOPE.encode(envelope("acme", "known", "ticket.refund"))
NAMES = [
    [b"\xff\xfe"],
    [b"ce_id", b"\xff"],
    [b"\xff", b"ce_id"],
    [b"\xff", b"\xfe"],
    [b"\xed\xa0\x80"],
    [b""],
    [b"a\0b"],
    [b"ce_id"],
]
READABLE = [[], [], [], [], [], [("", b"1")], [("a", b"1")], [("ce_id", b"1")]]


@pytest.fixture
def messages() -> list[Message]:
    return messages_with_headers("events", VALUE, NAMES)


class Consumer:
    """Hands out real messages."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._waiting = list(messages)

    def subscribe(self, *_: Any, **__: Any) -> None: ...

    def poll(self, _: float) -> Message | None:
        return self._waiting.pop(0) if self._waiting else None

    def consume(self, _: int, __: float) -> list[Message]:
        taken, self._waiting = self._waiting, []
        return taken


def test_a_stage_reads_every_record(
    messages: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Consumer", lambda _: Consumer(messages))
    settings = Settings(bootstrap="127.0.0.1:1")
    source = Source("dispatcher", ["events"], settings, Outage(), lambda: None, lambda _: False)
    records = source.read(0)
    assert [record.value for record in records] == [VALUE] * len(NAMES)
    assert [list(record.headers) for record in records] == READABLE


@pytest.mark.parametrize("read", [lambda m: record_of("events", m), found_in])
def test_whoever_reads_events_again_reads_every_record(
    messages: list[Message], read: Callable[[Message], Any]
) -> None:
    assert [read(message).offset for message in messages] == list(range(1, len(NAMES) + 1))

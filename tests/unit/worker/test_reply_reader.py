"""Replies are read while the broker does not say where a further partition ends."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from streams.kafka import tail
from streams.settings import Settings
from streams.worker.transport import reply_reader
from streams.worker.transport.contract import Inbox

REPLIES = 3


class Message:
    def topic(self) -> str:
        return "jobs.replies"

    def error(self) -> None: ...

    def key(self) -> bytes:
        return b"k"

    value = key

    def partition(self) -> int:
        return 0

    offset = partition


class Consumer:
    """Answers the first question, has replies from the second on, and ends after the third."""

    def __init__(self, replies: Sequence[bytes]) -> None:
        self.replies, self.waiting = replies, 0
        self.read_before: list[int] = []
        self.closed = threading.Event()

    def get_watermark_offsets(self, *_: object) -> tuple[int, int]:
        self.read_before.append(len(self.replies))
        if len(self.read_before) == 1:
            return 0, 0
        if len(self.read_before) == 2:
            self.waiting = REPLIES
        else:
            self.closed.set()
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def incremental_assign(self, _: object) -> None: ...

    def consume(self, *_: object) -> list[Message]:
        return []

    def poll(self, _: float) -> Message | None:
        self.waiting -= 1
        return Message() if self.waiting >= 0 else None

    def list_topics(self, timeout: float) -> SimpleNamespace:
        return SimpleNamespace(topics={})

    def close(self) -> None: ...


def test_all_replies_that_wait_are_read_before_the_next_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replies: list[Any] = []
    consumer = Consumer(replies)
    monkeypatch.setattr(tail, "Consumer", lambda _: consumer)
    inbox = cast(Inbox, SimpleNamespace(replied=replies.append))
    reader = reply_reader.ReplyReader(Settings(), "worker", inbox)
    for partition in range(3):
        reader._asked.put((partition, Future()))
    reader.run(consumer.closed)
    assert consumer.read_before == [0, 0, REPLIES]

"""Replies are read while the broker does not say where a further partition ends."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from streams.settings import Settings
from streams.worker.transport import reply_reader
from streams.worker.transport.contract import Inbox

REPLIES = 3


class Message:
    def error(self) -> None: ...

    def key(self) -> bytes:
        return b"k"

    value = key

    def partition(self) -> int:
        return 0

    offset = partition


class Consumer:
    """Has replies from the first question on, answers no question, and ends after the second."""

    def __init__(self, replies: Sequence[bytes]) -> None:
        self.replies, self.waiting = replies, 0
        self.read_before: list[int] = []
        self.closed = threading.Event()

    def get_watermark_offsets(self, *_: object) -> tuple[int, int]:
        self.read_before.append(len(self.replies))
        self.waiting = self.waiting or REPLIES
        if len(self.read_before) == 2:
            self.closed.set()
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def poll(self, _: float) -> Message | None:
        self.waiting -= 1
        return Message() if self.waiting >= 0 else None

    def list_topics(self, *_: object) -> None: ...

    def close(self) -> None: ...


def test_all_replies_that_wait_are_read_before_the_next_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replies: list[Any] = []
    consumer = Consumer(replies)
    monkeypatch.setattr(reply_reader, "Consumer", lambda _: consumer)
    inbox = cast(Inbox, SimpleNamespace(replied=replies.append))
    reader = reply_reader.ReplyReader(Settings(), "worker", inbox)
    for partition in range(2):
        reader._asked.put((partition, Future()))
    reader.run(consumer.closed)
    assert consumer.read_before == [0, REPLIES]

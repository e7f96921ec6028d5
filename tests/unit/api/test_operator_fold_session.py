"""A record that the read model's file refuses costs that record alone."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from support.operator_cluster import make_job
from support.step_results import framed

from streams.api.read_model import positions, undecodable
from streams.api.read_model.database import Database
from streams.api.read_model.fold_session import FoldSession
from streams.api.read_model.positions import Span
from streams.kafka import tail
from streams.kafka.failures import Outage
from streams.process.wall_clock import wall_ms
from streams.serde.codec import DEAD_LETTER, JOB
from streams.serde.keys import checkpoint_key
from streams.serde.records import DeadLetter
from streams.settings import Settings

JOBS, STEPS = ("jobs", 0), ("dispatcher.checkpoints.changelog", 0)


class Message:
    def __init__(self, topic: str, offset: int, key: bytes, value: bytes) -> None:
        self._parts = topic, offset, key, value

    def topic(self) -> str:
        return self._parts[0]

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._parts[1]

    def key(self) -> bytes:
        return self._parts[2]

    def value(self) -> bytes:
        return self._parts[3]

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000

    def error(self) -> None:
        return None


class Consumer:
    """Hands out what it is given at once, and nothing after that."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    def incremental_assign(self, _: list[TopicPartition]) -> None: ...

    def close(self) -> None: ...

    def poll(self, _: float) -> Message | None:
        return self._messages.pop(0) if self._messages else None

    def consume(self, _: int, __: float) -> list[Message]:
        taken, self._messages[:] = list(self._messages), []
        return taken


class Producer:
    def __init__(self) -> None:
        self.letters: list[DeadLetter] = []

    def produce(self, _: str, value: bytes, *__: Any, on_delivery: Callable[..., None]) -> None:
        self.letters.append(DEAD_LETTER.decode(value))

    def flush(self, _: float) -> int:
        return 0


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = Database(tmp_path / "m.sqlite").open_writer()
    yield opened
    opened.close()


def fold(
    monkeypatch: pytest.MonkeyPatch, connection: sqlite3.Connection, messages: list[Message]
) -> list[DeadLetter]:
    """Fold messages in one batch; return the dead letters of them."""
    producer = Producer()
    monkeypatch.setattr(undecodable, "Producer", lambda _: producer)
    monkeypatch.setattr(tail, "Consumer", lambda _: Consumer(messages))
    monkeypatch.setattr(
        positions, "spans", lambda *_: {JOBS: Span("id", 0, 3), STEPS: Span("id", 0, 2)}
    )
    settings, hurry = Settings(bootstrap="127.0.0.1:1"), threading.Event()
    session = FoldSession(settings, connection, lambda _: None, Outage(), hurry)
    session.step()
    session.close()
    return producer.letters


def job(offset: int, job_id: str) -> Message:
    return Message("jobs", offset, job_id.encode(), JOB.encode(make_job(job_id)))


def test_a_row_that_the_file_refuses_is_a_dead_letter_and_its_neighbours_are_shown(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute(
        "CREATE TRIGGER odd BEFORE INSERT ON jobs WHEN NEW.job_id = 'job_b'"
        " BEGIN SELECT RAISE(ABORT, 'odd'); END"
    )
    messages = [job(0, "job_a"), job(1, "job_b"), job(2, "job_c")]
    (letter,) = fold(monkeypatch, connection, messages)
    assert (letter.id, letter.reason) == ("operator:jobs:0:1", "undecodable")
    rows = connection.execute("SELECT job_id FROM jobs ORDER BY job_id").fetchall()
    assert rows == [("job_a",), ("job_c",)]
    assert positions.stored(connection)[JOBS] == ("id", 3)


def test_the_neighbours_of_a_refused_record_are_counted_once(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute(
        "CREATE TRIGGER odd BEFORE INSERT ON jobs WHEN NEW.job_id = 'job_b'"
        " BEGIN SELECT RAISE(ABORT, 'odd'); END"
    )
    now = wall_ms()
    names = ("job_a", "job_b", "job_c")
    made = {name: JOB.encode(make_job(name, created_at=now, updated_at=now)) for name in names}
    messages = [Message("jobs", n, b"", value) for n, value in enumerate(made.values())]
    fold(monkeypatch, connection, messages)
    assert connection.execute("SELECT tenant_id, jobs FROM minutes").fetchall() == [
        ("", 2),
        ("acme", 2),
    ]


def test_a_number_of_more_than_64_bits_in_a_key_does_not_stop_the_read_model(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = checkpoint_key("job_a", 10**30, "draft")
    messages = [
        Message(STEPS[0], 0, huge, b'"text"'),
        Message(STEPS[0], 1, checkpoint_key("job_a", 1, "draft"), framed('"text"')),
    ]
    (letter,) = fold(monkeypatch, connection, messages)
    assert letter.key == huge
    assert connection.execute("SELECT incarnation FROM steps").fetchall() == [(1,)]
    assert positions.stored(connection)[STEPS] == ("id", 2)

"""Batches of records become rows, whatever stands beside what; a killed rebuild goes on."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from support.audited import CALL
from support.operator_cluster import make_job
from support.step_results import framed

from streams.api.read_model import follower as following
from streams.api.read_model import positions, undecodable
from streams.api.read_model.database import Database
from streams.api.read_model.fold_session import FoldSession
from streams.api.read_model.follower import Follower
from streams.api.read_model.positions import Span
from streams.api.tables import TABLES
from streams.audit.entries import of_call
from streams.kafka import tail
from streams.kafka.failures import Outage
from streams.process.wall_clock import wall_ms
from streams.serde.codec import AUDIT_ENTRY, DEAD_LETTER, JOB
from streams.serde.keys import checkpoint_key
from streams.serde.records import DONE, DeadLetter
from streams.settings import Settings
from streams.topology.load import load

JOBS, STEPS, AUDIT = ("jobs", 0), ("dispatcher.checkpoints.changelog", 0), ("audit", 0)


class Message:
    def __init__(self, topic: str, offset: int, key: bytes, value: bytes | None) -> None:
        self._parts = topic, offset, key, value

    def topic(self) -> str:
        return self._parts[0]

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._parts[1]

    def key(self) -> bytes:
        return self._parts[2]

    def value(self) -> bytes | None:
        return self._parts[3]

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000

    def error(self) -> None:
        return None


class Consumer:
    """Hands out what it is given, a batch at a time; without another batch it calls `ended`."""

    def __init__(self, *batches: list[Message], ended: Callable[[], None] = lambda: None) -> None:
        self._batches = list(batches)
        self._messages = list[Message]()
        self._ended = ended

    def incremental_assign(self, _: list[TopicPartition]) -> None: ...

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        return partitions

    def close(self) -> None: ...

    def poll(self, _: float) -> Message | None:
        if not self._batches:
            self._ended()
            return None
        first, *self._messages = self._batches.pop(0)
        return first

    def consume(self, _: int, __: float) -> list[Message]:
        taken, self._messages = self._messages, []
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
        positions, "spans", lambda *_: dict.fromkeys((JOBS, STEPS, AUDIT), Span("id", 0, 9_999))
    )
    nowhere, hurry = Settings(bootstrap="127.0.0.1:1"), threading.Event()
    session = FoldSession(nowhere, connection, lambda _: None, Outage(), hurry)
    session.step()
    session.close()
    return producer.letters


def job(offset: int, job_id: str, **fields: Any) -> Message:
    return Message("jobs", offset, job_id.encode(), JOB.encode(make_job(job_id, **fields)))


def statuses(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT job_id, status FROM jobs").fetchall())


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
    messages = [job(n, name, created_at=now, updated_at=now) for n, name in enumerate(names)]
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


def test_the_last_record_of_a_key_is_its_row_and_a_deletion_counts_as_one(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [
        job(0, "job_a", status="running"),
        job(1, "job_b"),
        Message("jobs", 2, b"job_a", None),
        job(3, "job_a", status="failed"),
        Message("jobs", 4, b"job_b", None),
    ]
    assert not fold(monkeypatch, connection, messages)
    assert statuses(connection) == {"job_a": "failed"}
    assert positions.stored(connection)[JOBS] == ("id", 5)
    fold(monkeypatch, connection, [Message("jobs", 5, b"job_a", None), job(6, "job_b")])
    assert statuses(connection) == {"job_b": "pending"}


def test_records_of_several_tables_in_a_batch_are_all_rows(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the audit have one key, because no later entry replaces an earlier one."""
    step = checkpoint_key("job_a", 1, "draft")
    messages = [
        entry(0, "job.cancel"),
        job(0, "job_a"),
        Message(STEPS[0], 0, step, framed('"text"')),
        entry(1, "job.move"),
    ]
    fold(monkeypatch, connection, messages)
    verbs = connection.execute("SELECT verb FROM audit ORDER BY verb").fetchall()
    assert verbs == [("job.cancel",), ("job.move",)]
    assert connection.execute("SELECT job_id FROM steps").fetchall() == [("job_a",)]
    assert statuses(connection) == {"job_a": "pending"}
    ends = {place: offset for place, (_, offset) in positions.stored(connection).items()}
    assert ends == {JOBS: 1, STEPS: 1, AUDIT: 2}


def entry(offset: int, verb: str) -> Message:
    made = of_call(CALL, verb, "job_a", DONE, 1, tenant_id="acme")
    return Message("audit", offset, b"acme", AUDIT_ENTRY.encode(replace(made, id=f"aud_{offset}")))


def test_a_damaged_record_replaces_none_and_is_a_dead_letter_unless_it_is_replaced(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [
        Message("jobs", 0, b"job_a", b"damaged"),
        job(1, "job_a"),
        job(2, "job_b"),
        job(3, "job_b", status="running"),
        Message("jobs", 4, b"job_b", b"damaged"),
        Message("jobs", 5, b"job_b", b"damaged, too"),
        Message("jobs", 6, b"job_c", b"damaged"),
    ]
    letters = fold(monkeypatch, connection, messages)
    assert sorted(letter.offset or 0 for letter in letters) == [4, 5, 6]
    assert statuses(connection) == {"job_a": "pending", "job_b": "running"}


def test_a_job_whose_id_lives_again_is_found_by_what_it_is_now(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold(monkeypatch, connection, [job(0, "job_a", created_at=1), job(1, "job_b", created_at=2)])
    fold(monkeypatch, connection, [job(2, "job_a", created_at=3), job(3, "job_b", created_at=2)])
    listed = connection.execute("SELECT job_id FROM jobs ORDER BY created_at, job_id").fetchall()
    assert listed == [("job_b",), ("job_a",)]
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_rebuild_that_is_killed_in_its_middle_goes_on_and_ends_with_all_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(tmp_path / "m.sqlite")
    follow(monkeypatch, database, [job(0, "job_a"), job(1, "job_b", status="running")])
    with closing(database.open_writer()) as rows:
        assert statuses(rows) == {"job_a": "pending", "job_b": "running"}
        assert indexes(rows) == set()
    batches = [[job(2, "job_b", status="failed")], [job(n, "job_c") for n in range(3, 9)]]
    follow(monkeypatch, database, *batches)
    with closing(database.open_writer()) as rows:
        assert statuses(rows) == {"job_a": "pending", "job_b": "failed", "job_c": "pending"}
        assert indexes(rows) == ALL_INDEXES
        assert rows.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def follow(monkeypatch: pytest.MonkeyPatch, database: Database, *batches: list[Message]) -> None:
    """Run a follower until it has caught up with nine jobs, or there are no more batches."""

    def consumer(_: object) -> Consumer:
        return Consumer(*batches, ended=follower._thread.stopping.set)

    monkeypatch.setattr(tail, "Consumer", consumer)
    monkeypatch.setattr(positions, "spans", lambda *_: {JOBS: Span("id", 0, 9)})
    monkeypatch.setattr(following, "wait_for_broker", lambda _: None)
    nowhere, hurry = Settings(bootstrap="127.0.0.1:1"), threading.Event()
    follower = Follower(nowhere, load(), database, lambda _: None, hurry)
    follower._run()


ALL_INDEXES = {name for table in TABLES for name in table.index_ddl}


def indexes(connection: sqlite3.Connection) -> set[str]:
    """The names of the tables' indexes that are there."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")
    return {name for (name,) in found} & ALL_INDEXES


@pytest.mark.parametrize("seed", range(3))
def test_rows_and_indexes_are_those_of_the_last_records(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Of batches with more rows than a statement takes, some of jobs that live again."""
    chance, offsets = Random(seed), count()
    expected = dict[str, tuple[str, int]]()

    def message() -> Message:
        offset, job_id = next(offsets), f"job_{chance.randrange(900)}"
        if chance.random() < 0.1:
            expected.pop(job_id, None)
            return Message("jobs", offset, job_id.encode(), None)
        status, born = chance.choice(["pending", "running", "failed"]), chance.randrange(1, 3)
        expected[job_id] = (status, born)
        return job(offset, job_id, status=status, created_at=born)

    for size in (1_500, 3, 1_000, 30):
        fold(monkeypatch, connection, [message() for _ in range(size)])
        rows = connection.execute("SELECT job_id, status, created_at FROM jobs").fetchall()
        assert {job_id: (status, born) for job_id, status, born in rows} == expected
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

"""A reader's effects and offsets are one transaction: nothing is lost or repeated."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from structlog.testing import capture_logs
from support import killed_reader
from support.broken_records import BROKEN_EVENT
from support.killed_reader import ALL, LOGS, fresh, insert, read, seen
from support.operator_cluster import make_event
from support.played_consumer import PlayedConsumer, PlayedMessage

from streams import SqliteSink
from streams.errors import ConfigError, PoisonRecord
from streams.event_reader import consume as consuming
from streams.event_reader import reader as reading
from streams.event_reader import silence, topic_sink
from streams.event_reader.consume import EventsPurged, consume
from streams.event_reader.handling import Part
from streams.event_reader.sinks import DatabaseSink, Moved
from streams.event_reader.topic_sink import KafkaSink
from streams.serde.codec import ENVELOPE
from streams.serde.records import Envelope
from streams.settings import Settings


@pytest.fixture(autouse=True)
def _answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker answers."""
    monkeypatch.setattr(consuming, "wait_for_broker", lambda *_, **__: None)


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> list[list[bytes]]:
    """What is on the topic."""
    found = [list(log) for log in LOGS]
    monkeypatch.setattr(reading, "Consumer", lambda _: PlayedConsumer(found))
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return fresh(tmp_path / "orders.db")


def test_each_event_is_handled_once_over_many_runs(file: Path, logs: list[list[bytes]]) -> None:
    assert read(file) == 6
    assert read(file) == 0
    logs[0].append(ENVELOPE.encode(make_event("a9")))
    assert read(file) == 1
    assert seen(file) == sorted([*ALL, "evt_a9"])


def test_a_partition_that_is_still_empty_gets_an_offset_too(
    file: Path, logs: list[list[bytes]]
) -> None:
    """Without one, its events that are purged while no process reads would be missed silently."""
    logs[1].clear()
    read(file)
    sink = SqliteSink(file)
    sink.open("orders", "events", {})
    assert sink.stored(PlayedConsumer([]), [0, 1]) == {0: 4, 1: 0}  # type: ignore[arg-type]
    sink.close()
    logs[1] += LOGS[1]
    assert read(file) == 2


def test_a_topic_that_was_made_again_with_fewer_events_is_not_passed_over(
    file: Path, logs: list[list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka has the reader begin with its oldest event, which lies before the stored offset."""

    class Reset(PlayedConsumer):
        def seek(self, place: TopicPartition) -> None:
            if place.offset > len(logs[place.partition]):
                place.offset = 0
            super().seek(place)

    read(file)
    monkeypatch.setattr(reading, "Consumer", lambda _: Reset(logs))
    logs[0][:] = [ENVELOPE.encode(make_event("n0"))]
    with pytest.raises(EventsPurged, match=r"ends before offset 4, .* another group"):
        read(file, skip_purged=True)
    assert seen(file) == ALL


def test_a_process_to_which_the_group_gives_nothing_ends_too(
    file: Path, logs: list[list[bytes]]
) -> None:
    logs.clear()
    assert read(file) == 0


class Busy(PlayedConsumer):
    """More comes with each poll, so that Kafka never says that a partition ends."""

    def __init__(self, logs: list[list[bytes]]) -> None:
        super().__init__(logs)
        self._all, self._polls = logs, 0

    def consume(self, most: int, wait: float) -> list[PlayedMessage]:
        self._polls += 1
        assert self._polls < 20, "the reader does not end"
        found = [each for each in super().consume(most, wait) if each.error() is None]
        for number, log in enumerate(self._all):
            more = [make_event(f"n{number}-{self._polls}-{i}") for i in range(3)]
            log += [ENVELOPE.encode(event) for event in more]
        return found


def test_a_topic_to_which_events_keep_coming_has_an_end_too(
    file: Path, logs: list[list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka tells the end of a partition only once nothing has come for half a second."""
    monkeypatch.setattr(reading, "Consumer", lambda _: Busy(logs))
    assert read(file) >= 6
    assert set(ALL) <= set(seen(file))


def test_an_end_that_kafka_does_not_tell_at_first_is_asked_for_again(
    file: Path, logs: list[list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition may have no leader when the reader starts."""
    refused = iter([KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))] * 3)

    class Leaderless(Busy):
        def get_watermark_offsets(self, place: TopicPartition, wait: float) -> tuple[int, int]:
            if error := next(refused, None):
                raise error
            return super().get_watermark_offsets(place, wait)

    monkeypatch.setattr(reading, "Consumer", lambda _: Leaderless(logs))
    assert read(file) >= 6


def test_a_reader_that_is_told_to_stop_while_no_broker_answers_opens_nothing(
    logs: list[list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_: Settings, *, stop: threading.Event, **__: Any) -> None:
        stop.set()

    monkeypatch.setattr(consuming, "wait_for_broker", stopped)
    into: Any = None  # it would fail if it were used
    assert consume(insert, group="orders", into=into) == 0


class Scripted(PlayedConsumer):
    """Gives what is written down for each poll, then sets `stop`."""

    def __init__(self, config: dict[str, Any], polls: list[Any], stop: threading.Event) -> None:
        super().__init__(LOGS)
        self._hear, self._polls, self._stop = config["error_cb"], polls, stop
        self.answers = True

    def consume(self, most: int, wait: float) -> list[PlayedMessage]:
        found = super().consume(most, wait) if self._begin else []
        step = self._polls.pop(0)
        if not self._polls:
            self._stop.set()
        return [*found, *(step(self) or ())] if callable(step) else [*found, *step]

    def lose_brokers(self) -> None:
        self.answers = False
        for code in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            self._hear(KafkaError(code, f"code {code}"))

    def find_brokers(self) -> None:
        self.answers = True

    def list_topics(self, topic: str, timeout: float) -> None:
        assert topic == "events"
        if not self.answers:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def told(file: Path, monkeypatch: pytest.MonkeyPatch, *polls: Any) -> list[Any]:
    """What a reader logs that gets this with its polls."""
    stop = threading.Event()
    monkeypatch.setattr(reading, "Consumer", lambda config: Scripted(config, [*polls], stop))
    with capture_logs() as lines:
        consume(insert, group="orders", into=SqliteSink(file), stop=stop)
    return lines


def test_brokers_that_go_away_are_told_once_and_so_is_their_return_though_no_event_comes(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away, back = Scripted.lose_brokers, Scripted.find_brokers
    lines = told(file, monkeypatch, [], away, [], away, back, [], away, back)
    down, up = "kafka does not answer: trying on", "kafka answers"
    assert [line["event"] for line in lines] == [down, up, down, up]
    assert lines[0]["error"] == f"code {KafkaError._TRANSPORT}"


def test_records_that_were_fetched_before_do_not_end_an_outage(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = [PlayedMessage(0, 3, LOGS[0][3])]
    lines = told(file, monkeypatch, Scripted.lose_brokers, fetched)
    assert [line["event"] for line in lines] == ["kafka does not answer: trying on"]


def test_the_reason_of_an_outage_is_not_one_that_was_heard_long_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker may have refused the client a week ago, while others answered."""
    now = 0.0
    monkeypatch.setattr(silence, "boot_seconds", lambda: now)
    heard = silence.Silence("events").heard
    heard(KafkaError(KafkaError._SSL, "certificate expired"))
    now += 59
    heard(KafkaError(KafkaError._TRANSPORT, "connection refused"))
    now += 2
    with capture_logs() as lines:
        heard(KafkaError(KafkaError._TRANSPORT, "connection refused"))
        heard(KafkaError(KafkaError._ALL_BROKERS_DOWN, "3/3 brokers are down"))
    assert [line["error"] for line in lines] == ["connection refused"]


def test_errors_of_a_partition_are_told_once_for_as_long_as_it_gives_nothing_else(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client tries again for ever, so without a word nobody would know why nothing comes."""
    epoch, storage = KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.KAFKA_STORAGE_ERROR

    def fails(partition: int, code: int) -> list[PlayedMessage]:
        return [PlayedMessage(partition, -1, None, code)]

    lines = told(
        file,
        monkeypatch,
        [],
        fails(1, epoch),
        fails(1, epoch),
        fails(1, storage),
        fails(0, epoch),
        [PlayedMessage(1, 2, None, KafkaError._PARTITION_EOF)],
        fails(0, epoch),
        fails(1, epoch),
        [PlayedMessage(0, 3, LOGS[0][3])],
        fails(0, epoch),
    )
    assert {(line["event"], line["topic"]) for line in lines} == {
        ("kafka does not give events: trying on", "events")
    }
    assert [(line["partition"], line["error"]) for line in lines] == [
        (number, KafkaError(code).str())
        for number, code in ((1, epoch), (1, storage), (0, epoch), (1, epoch), (0, epoch))
    ]


def test_an_end_that_kafka_does_not_tell_is_logged_once_though_records_come(
    file: Path, logs: list[list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(range(5))

    class Leaderless(Busy):
        def get_watermark_offsets(self, place: TopicPartition, wait: float) -> tuple[int, int]:
            if place.partition == 0 and next(left, None) is not None:
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
            return super().get_watermark_offsets(place, wait)

    monkeypatch.setattr(reading, "Consumer", lambda _: Leaderless(logs))
    with capture_logs() as lines:
        read(file)
    assert [(line["partition"], line["error"]) for line in lines] == [
        (0, KafkaError(KafkaError.LEADER_NOT_AVAILABLE).str())
    ]


def test_an_offset_that_kafka_does_not_know_yet_is_not_taken_for_none() -> None:
    """Otherwise the reader would begin with the oldest event, and send all its results again."""
    unstable = KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT)
    place = SimpleNamespace(partition=0, offset=-1001, error=unstable)
    sink = KafkaSink("x")
    sink._topic = "events"
    with pytest.raises(KafkaException):
        sink.stored(SimpleNamespace(committed=lambda *_: [place]), [0])  # type: ignore[arg-type]


def test_only_selected_events_are_handled(file: Path, logs: list[list[bytes]]) -> None:
    assert read(file, types=["tick*"]) == 2
    assert seen(file) == ["evt_b0", "evt_b1"]


def test_types_may_be_one_glob(file: Path, logs: list[list[bytes]]) -> None:
    """Its letters are not globs: they would select nothing, or with a `*` among them all."""
    assert read(file, types="ticket") == 2
    assert seen(file) == ["evt_b0", "evt_b1"]


def test_no_types_select_all_in_whatever_form(file: Path, logs: list[list[bytes]]) -> None:
    """A program that reads them from a variable that is not set gets an empty text."""
    assert read(file, types="") == 6


def test_a_handler_that_nothing_would_await_is_refused(file: Path, logs: list[list[bytes]]) -> None:
    async def handle(event: Envelope, cursor: sqlite3.Cursor) -> None:
        insert(event, cursor)

    with pytest.raises(ConfigError, match="`async def`"):
        read(file, handle)
    assert read(file) == 6


class Asynchronous:
    async def __call__(self, event: Envelope, cursor: sqlite3.Cursor) -> None:
        insert(event, cursor)


async def late(event: Envelope, cursor: sqlite3.Cursor) -> None:
    insert(event, cursor)


def begun_and_late(event: Envelope, cursor: sqlite3.Cursor) -> object:
    insert(event, cursor)
    return late(event, cursor)


def yielding(event: Envelope, cursor: sqlite3.Cursor) -> Iterator[None]:
    insert(event, cursor)
    yield


async def yielding_late(event: Envelope, cursor: sqlite3.Cursor) -> AsyncIterator[None]:
    insert(event, cursor)
    yield


@pytest.mark.parametrize(
    ("handle", "what"),
    [
        (Asynchronous(), "coroutine"),
        (begun_and_late, "coroutine"),
        (yielding, "generator"),
        (yielding_late, "async_generator"),
        (lambda *_: asyncio.Future(loop=Mock()), "Future"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_handler_whose_call_has_not_run_it_is_taken_back(
    file: Path, logs: list[list[bytes]], handle: Any, what: str
) -> None:
    with pytest.raises(ConfigError, match=rf"returns a {what}, .* make it a plain `def`"):
        read(file, handle)
    assert seen(file) == []
    assert read(file) == 6


def test_a_handler_may_return_the_cursor_that_has_run(file: Path, logs: list[list[bytes]]) -> None:
    sql = "INSERT INTO seen VALUES (?)"
    assert read(file, lambda event, cursor: cursor.execute(sql, (event.event_id,))) == 6
    assert seen(file) == ALL


@pytest.mark.long
def test_a_kill_at_any_line_neither_loses_nor_repeats(tmp_path: Path) -> None:
    tests = Path(killed_reader.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "support.killed_reader", str(tmp_path)],
        cwd=tests.parent,
        env={**os.environ, "PYTHONPATH": str(tests)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 100


def test_an_exception_of_the_handler_takes_its_part_back_and_names_the_event(
    file: Path, logs: list[list[bytes]]
) -> None:
    def failing(event: Envelope, cursor: sqlite3.Cursor) -> None:
        insert(event, cursor)
        if event.event_id == "evt_a3":
            raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        read(file, failing)
    assert caught.value.__notes__ == ["while event evt_a3 of tenant 'acme' was handled"]
    assert "evt_a3" not in seen(file)
    read(file)
    assert seen(file) == ALL


def test_a_process_that_lost_its_partition_writes_nothing(file: Path) -> None:
    former, heir = SqliteSink(file), SqliteSink(file)
    events = [(n + 1, make_event(f"a{n}")) for n in range(4)]
    consumer: Any = PlayedConsumer([])
    for sink in (former, heir):
        sink.open("orders", "events", {})
        assert sink.stored(consumer, [0]) == {0: None}
    heir.write(consumer, Part(0, None, 2, events[:2]), insert)
    with pytest.raises(Moved):
        former.write(consumer, Part(0, None, 1, events[:1]), insert)
    assert former.stored(consumer, [0]) == {0: 2}
    former.write(consumer, Part(0, 2, 3, events[2:3]), insert)
    with pytest.raises(Moved):
        heir.write(consumer, Part(0, 2, 4, events[2:]), insert)
    assert seen(file) == ["evt_a0", "evt_a1", "evt_a2"]


def test_a_reader_whose_partition_was_read_on_a_little_reads_the_rest(
    file: Path, logs: list[list[bytes]]
) -> None:
    """Another process handles the first event alone after this one has read the whole partition."""
    logs[:] = [logs[0][:3]]
    assert consume(insert, group="orders", into=overtaken(file), until_end=True) == 2
    assert seen(file) == ["evt_a0", "evt_a1", "evt_a2"]


def overtaken(file: Path) -> SqliteSink:
    """A sink before whose first transaction another process handles the first event."""
    other = SqliteSink(file)
    other.open("orders", "events", {})

    class Overtaken(SqliteSink):
        def write(self, consumer: Any, part: Part, handle: Any) -> int:
            if part.stored is None:
                other.write(consumer, replace(part, next=1, events=part.events[:1]), insert)
            return super().write(consumer, part, handle)

    return Overtaken(file)


def test_a_reader_that_cannot_go_back_to_where_another_one_ended_skips_nothing(
    file: Path, logs: list[list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its partition is being taken from it, and what it has fetched before still comes."""

    class Leaving(PlayedConsumer):
        def seek(self, place: TopicPartition) -> None:
            if place.offset > 0:
                raise KafkaException(KafkaError(KafkaError._STATE))
            super().seek(place)

    logs[:] = [logs[0]]
    monkeypatch.setattr(reading, "Consumer", lambda _: Leaving(logs))
    assert consume(insert, group="orders", into=overtaken(file), until_end=True) == 0
    monkeypatch.setattr(reading, "Consumer", lambda _: PlayedConsumer(logs))
    read(file)
    assert seen(file) == ["evt_a0", "evt_a1", "evt_a2", "evt_a3"]


def test_a_reader_whose_partition_was_read_on_goes_on_behind_it(
    file: Path, logs: list[list[bytes]]
) -> None:
    """Another process handles all events after this one has read its first ones."""
    others: list[int] = []

    class Overtaken(SqliteSink):
        def write(self, consumer: Any, part: Part, handle: Any) -> int:
            if not others:
                others.append(read(file))
            return super().write(consumer, part, handle)

    assert consume(insert, group="orders", into=Overtaken(file), until_end=True) == 0
    assert (others, seen(file)) == ([len(ALL)], ALL)


def test_a_slow_handler_s_events_are_committed_while_it_goes_on(
    file: Path, logs: list[list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise Kafka ends the transaction, or gives the partition to another one, for ever."""
    now, before = 0.0, list[int]()
    monkeypatch.setattr("streams.event_reader.handling.time.monotonic", lambda: now)

    def slow(event: Envelope, cursor: sqlite3.Cursor) -> None:
        nonlocal now
        before.append(len(seen(file)))
        now += 1.5
        insert(event, cursor)

    assert read(file, slow) == len(ALL)
    assert (before, seen(file)) == ([0, 0, 2, 2, 4, 4], ALL)


def test_a_handler_that_ends_the_transaction_is_stopped(
    file: Path, logs: list[list[bytes]]
) -> None:
    def ending(event: Envelope, cursor: sqlite3.Cursor) -> None:
        insert(event, cursor)
        cursor.connection.rollback()

    with pytest.raises(ConfigError, match="ended the transaction"):
        read(file, ending)


def test_a_handler_that_commits_by_itself_may_repeat_events_and_loses_none(
    file: Path, logs: list[list[bytes]]
) -> None:
    """Databases commit by themselves, too: before they create a table, for example."""

    def committing(event: Envelope, cursor: sqlite3.Cursor) -> None:
        insert(event, cursor)
        cursor.connection.commit()
        if len(seen(file)) == 2:
            raise ValueError("no")

    for has_offset in (False, True):
        fresh(file)
        logs[:] = [list(LOGS[0])]
        if has_offset:
            read(file, lambda event, cursor: None)
            logs[0] += LOGS[0]
        with pytest.raises(ValueError, match="no"):
            read(file, committing)
        read(file)
        assert {*seen(file)} == {f"evt_a{n}" for n in range(4)}


def test_a_record_that_cannot_be_read_stops_the_reader_unless_it_is_to_be_left_out(
    file: Path, logs: list[list[bytes]]
) -> None:
    logs[0].insert(1, BROKEN_EVENT)
    with pytest.raises(PoisonRecord, match=r"partition 0, offset 1: .* leave such records out"):
        read(file)
    read(file, skip_unreadable=True)
    assert seen(file) == ALL


def test_a_group_of_the_pipeline_is_refused(file: Path) -> None:
    for group in ("dedup", "worker-default", "pipeline", "analytics"):
        with pytest.raises(ConfigError, match="one of Tidegate's own"):
            consume(insert, group=group, into=SqliteSink(file))


def test_a_connection_that_commits_by_itself_is_refused(
    file: Path, logs: list[list[bytes]]
) -> None:
    into = DatabaseSink(lambda: sqlite3.connect(file, isolation_level=None), "?")
    for _ in range(2):
        with pytest.raises(ConfigError, match="commits by itself"):
            consume(insert, group="orders", into=into, until_end=True)
    assert seen(file) == []
    read(file)
    assert seen(file) == ALL


def test_the_end_of_a_partition_is_stored_with_the_marker_before_it(
    file: Path, logs: list[list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marker is purged with its events; then an offset before it would count as a loss."""

    class Marked(PlayedConsumer):
        def consume(self, most: int, wait: float) -> list[PlayedMessage]:
            return [
                PlayedMessage(m.partition(), m.offset() + 1, None, KafkaError._PARTITION_EOF)
                if m.error()
                else m
                for m in super().consume(most, wait)
            ]

    logs[1].clear()
    monkeypatch.setattr(reading, "Consumer", lambda _: Marked(logs))
    assert read(file) == 4
    sink = SqliteSink(file)
    sink.open("orders", "events", {})
    assert sink.stored(PlayedConsumer([]), [0]) == {0: 5}  # type: ignore[arg-type]
    sink.close()


def test_a_table_that_is_there_need_not_be_made(file: Path, logs: list[list[bytes]]) -> None:
    """PostgreSQL refuses it to a user without the right, and to a second process at that moment."""

    class Refusing(sqlite3.Cursor):
        def execute(self, sql: str, *values: Any) -> Any:
            if sql.startswith("CREATE"):
                raise sqlite3.OperationalError("permission denied")
            return super().execute(sql, *values)

    class Connection(sqlite3.Connection):
        def cursor(self, *_: Any) -> Any:
            return super().cursor(Refusing)

    into = DatabaseSink(lambda: sqlite3.connect(file, factory=Connection), "?")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        consume(insert, group="orders", into=into, until_end=True)
    SqliteSink(file).open("orders", "events", {})
    assert consume(insert, group="orders", into=into, until_end=True) == len(ALL)


class PlayedProducer:
    """A producer whose queue is full until it is polled with patience."""

    def __init__(self, _: object) -> None:
        self.sent: list[bytes] = []
        self.full = True

    def produce(self, _: str, value: bytes, __: bytes | None) -> None:
        if self.full:
            raise BufferError("Local: Queue full")
        self.sent.append(value)

    def poll(self, seconds: float) -> None:
        self.full = seconds == 0

    def init_transactions(self, _: float) -> None: ...

    def list_topics(self, topic: str, _: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None)})


def test_a_handler_that_sends_more_than_the_queue_takes_waits_for_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_sink, "Producer", PlayedProducer)
    sink = KafkaSink("one")
    sink.open("orders", "events", {})
    for value in (b"1", b"2"):
        sink._send("out", value)
    assert sink._producer.sent == [b"1", b"2"]  # type: ignore[attr-defined]

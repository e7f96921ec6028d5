"""The read model knows how current it is from the broker alone, and says when it does not know."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streams.api.live import table
from streams.api.read_model import fold_session, positions
from streams.api.read_model import follower as following
from streams.api.read_model.database import Database
from streams.api.read_model.fold_session import FoldSession, Lag
from streams.api.read_model.follower import Follower, seconds_behind
from streams.api.read_model.freshness import Freshness
from streams.api.read_model.positions import MAX_AGE_MS, Span, Untrusted
from streams.kafka.failures import Outage
from streams.kafka.offsets import EndOffsetsPoll, Ends, Place, latest, read_offsets
from streams.operator import metrics
from streams.operator.counts import Counts
from streams.process.wall_clock import wall_ms
from streams.settings import Settings
from streams.topology.load import load

NOW = 1_800_000_000_000
HERE, THERE = ("jobs", 0), ("jobs", 1)
NOWHERE = Settings(bootstrap="127.0.0.1:1")


class Admin:
    """A broker that answers `list_offsets` when it is told to."""

    def __init__(self) -> None:
        self.asked: list[dict[Any, Future[Any]]] = []

    def list_offsets(self, wanted: dict[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        self.asked.append({each: Future() for each in wanted})
        return self.asked[-1]

    def answer(self, *offsets: int) -> None:
        for future, offset in zip(self.asked[-1].values(), offsets, strict=True):
            future.set_result(SimpleNamespace(offset=offset))


def test_rows_are_as_fresh_as_the_question_whose_answer_they_have_reached() -> None:
    freshness = Freshness(NOW, Ends(NOW + 10, {HERE: 5, THERE: 3}))
    freshness.reached({HERE: 5, THERE: 2})
    assert freshness.at == NOW
    freshness.reached({HERE: 5, THERE: 3})
    assert freshness.at == NOW + 10
    freshness.reached({HERE: 9, THERE: 9})
    assert freshness.at == NOW + 10, "nothing was heard since"


def test_a_load_that_never_pauses_does_not_make_rows_grow_old() -> None:
    freshness = Freshness(NOW, Ends(NOW, {HERE: 0}))
    for second in range(1, 10):
        freshness.heard(Ends(NOW + second, {HERE: 10 * second}))
        freshness.reached({HERE: 10 * second - 1})
    assert freshness.at == NOW + 8


def test_rows_that_were_not_proven_for_long_are_not_trusted() -> None:
    freshness = Freshness(NOW, Ends(NOW, {HERE: 0}))
    freshness.require(NOW + MAX_AGE_MS)
    with pytest.raises(Untrusted, match="cut off"):
        freshness.require(NOW + MAX_AGE_MS + 1)


def test_ends_are_asked_for_one_question_at_a_time() -> None:
    admin = Admin()
    question = EndOffsetsPoll(admin, "p.", Outage())  # type: ignore[arg-type]
    assert question.answer() is None
    question.ask([HERE, THERE], NOW)
    question.ask([HERE, THERE], NOW + 5_000)
    assert question.answer() is None
    assert len(admin.asked) == 1
    admin.answer(7, 8)
    assert question.answer() == Ends(NOW, {HERE: 7, THERE: 8})
    question.ask([HERE, THERE], NOW + 5_200)
    admin.answer(-1001, -1001)
    assert question.answer() is None, "no offset is no end"
    question.ask([HERE, THERE], NOW + 6_200)
    assert len(admin.asked) == 3


def test_a_partition_without_an_end_takes_no_other_its_end() -> None:
    admin, outage = Admin(), Outage()
    question = EndOffsetsPoll(admin, "p.", outage)  # type: ignore[arg-type]
    question.ask([HERE, THERE], NOW)
    admin.answer(7, -1001)
    assert question.answer() == Ends(NOW, {HERE: 7}, complete=False)
    assert outage.recent


def test_an_answer_without_an_offset_is_no_position() -> None:
    admin = Admin()

    def answered(wanted: dict[Any, Any], **more: Any) -> dict[Any, Future[Any]]:
        found = Admin.list_offsets(admin, wanted, **more)
        admin.answer(-1001)
        return found

    admin.list_offsets = answered  # type: ignore[method-assign]
    with pytest.raises(KafkaException):
        read_offsets(admin, "", [HERE], latest(), 1)  # type: ignore[arg-type]


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = Database(tmp_path / "m.sqlite").open_writer()
    yield opened
    opened.close()


@pytest.fixture
def cut_off(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FoldSession]:
    """A session whose broker went away right after it began."""
    monkeypatch.setattr(positions, "spans", lambda *_: {HERE: Span("id", 0, 0)})
    found = FoldSession(NOWHERE, connection, lambda _: None, Outage(), threading.Event())
    yield found
    found.close()


def test_a_session_that_hears_nothing_stays_as_fresh_as_it_was(
    cut_off: FoldSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cut_off.caught_up()
    began = cut_off.freshness.at
    monkeypatch.setattr(fold_session, "wall_ms", lambda: began + 60_000)
    lag = cut_off.lag()
    assert (cut_off.freshness.at, lag.heard_at) == (began, began)
    assert seconds_behind(lag, began + 60_000) == 60
    cut_off.step()
    monkeypatch.setattr(fold_session, "wall_ms", lambda: began + MAX_AGE_MS + 1)
    with pytest.raises(Untrusted):
        cut_off.step()


def test_a_session_that_ended_leaves_no_client_to_the_garbage_collector(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a batch stays damaged, one begins each second."""
    monkeypatch.setattr(positions, "spans", lambda *_: {HERE: Span("id", 0, 0)})
    found = FoldSession(NOWHERE, connection, lambda _: None, Outage(), threading.Event())
    kept = weakref.ref(found)
    found.close()
    del found
    assert kept() is None


def test_a_broker_heard_of_just_now_adds_nothing_to_the_lag() -> None:
    assert seconds_behind(Lag(0, 0.0, NOW), NOW + 2_000) == 0
    assert seconds_behind(Lag(4, 3.5, NOW), NOW + 2_000) == 3.5
    assert seconds_behind(Lag(4, 90.0, NOW), NOW + 8_000) == 90


class Scripted:
    """Sessions in the broker's place: the first has caught up at once, the second never does."""

    def __init__(self, each: Callable[[int], None]) -> None:
        self.number = 0
        self.begins_anew = True
        self.freshness = SimpleNamespace(at=NOW)
        self.folded: dict[Place, int] = {("jobs", 0): 7}
        self._each = each

    def caught_up(self) -> bool:
        return self.number == 1

    def lag(self) -> Lag:
        return Lag(0, 0.0, NOW)

    def step(self) -> None:
        self._each(self.number)

    def close(self) -> None:
        pass


def scripted(monkeypatch: pytest.MonkeyPatch, step: Callable[[int], None]) -> None:
    """Have a follower's sessions be `Scripted` ones, whose steps get the session's number."""
    sessions = Scripted(step)

    def begun(*_: Any) -> Scripted:
        sessions.number += 1
        return sessions

    monkeypatch.setattr(Follower, "_session", begun)
    monkeypatch.setattr(following, "wait_for_broker", lambda _: None)


@pytest.mark.parametrize("outage", [False, True])
def test_a_file_that_disappears_is_begun_anew_and_nothing_is_ready_until_it_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outage: bool
) -> None:
    database = Database(tmp_path / "m.sqlite")
    follower = Follower(NOWHERE, load(), database, lambda _: None, threading.Event())
    ready = []

    def step(number: int) -> None:
        ready.append((number, follower.ready))
        if number == 1:
            database.path.unlink()
            if outage:
                raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        else:
            follower._thread.stopping.set()

    scripted(monkeypatch, step)
    monkeypatch.setattr(following, "_RETRY_SECONDS", 0)
    follower._run()
    assert ready == [(1, True), (2, False)]
    assert database.path.exists()


def test_records_are_folded_between_deletions_of_rows_that_are_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a day without the operator there are millions: meanwhile nothing would be shown."""
    database, left = Database(tmp_path / "m.sqlite"), list[int]()
    follower = Follower(NOWHERE, load(), database, lambda _: None, threading.Event())
    now = wall_ms()
    with closing(database.open_writer()) as rows:
        rows.executemany(
            table.TABLE.upsert,
            (
                ("job_a", n, "acme", now if n == 0 else 1, "token", "run_1", 1, "", n, "Hi")
                for n in range(12_000)
            ),
        )

    def step(_: int) -> None:
        count = "SELECT count(*) FROM live"
        left.append(database.read(lambda db: db.execute(count).fetchone()[0]))
        if left[-1] == 1:
            follower._thread.stopping.set()

    scripted(monkeypatch, step)
    follower._run()
    database.close()
    assert left == [7_000, 2_000, 1]


def test_a_file_that_a_query_finds_broken_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each call that reads the broken page would be answered 503 for ever."""
    database = Database(tmp_path / "m.sqlite")
    follower = Follower(NOWHERE, load(), database, lambda _: None, threading.Event())
    steps = list[int]()

    def broken(_: sqlite3.Connection) -> None:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    def step(number: int) -> None:
        steps.append(number)
        if len(steps) == 1:
            with pytest.raises(sqlite3.DatabaseError):
                database.read(broken)
        else:
            follower._thread.stopping.set()

    scripted(monkeypatch, step)
    follower._run()
    database.close()
    assert steps == [1, 2]


def test_a_file_that_cannot_be_begun_anew_yet_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that follows outlives it: without it nothing is ready any more."""
    database = Database(tmp_path / "operator" / "m.sqlite")
    follower = Follower(NOWHERE, load(), database, lambda _: None, threading.Event())
    full, steps = [sqlite3.OperationalError("database or disk is full")] * 2, list[int]()
    create = Database._create

    def created(self: Database) -> sqlite3.Connection:
        if steps and full:
            raise full.pop()
        return create(self)

    def step(number: int) -> None:
        steps.append(number)
        if number == 1:
            shutil.rmtree(database.path.parent)
        else:
            follower._thread.stopping.set()

    monkeypatch.setattr(Database, "_create", created)
    scripted(monkeypatch, step)
    monkeypatch.setattr(following, "_RETRY_SECONDS", 0)
    follower._run()
    assert steps == [1, 2]
    assert database.path.exists()


def test_counts_are_computed_once_a_second_however_often_they_are_scraped() -> None:
    asked = []

    def read(_: Any) -> Counts:
        asked.append(1)
        return Counts({}, len(asked), None)

    clock = SimpleNamespace(now=100.0)
    collector = metrics.ReadModelCollector(
        SimpleNamespace(read=read),  # type: ignore[arg-type]
        SimpleNamespace(ready=True),  # type: ignore[arg-type]
        (),
        lambda: clock.now,
    )

    def dead_letters() -> float:
        found = {family.name: family for family in collector.collect()}
        return float(found["tidegate_dead_letters"].samples[0].value)

    assert [dead_letters() for _ in range(20)] == [1.0] * 20
    clock.now += 1.0
    assert dead_letters() == 2


def test_deliveries_are_counted_in_every_state_and_the_oldest_due_one_has_its_age() -> None:
    counted = Counts({}, 0, None, {"parked": 3}, wall_ms() - 60_000)
    collector = metrics.ReadModelCollector(
        SimpleNamespace(read=lambda _: counted),  # type: ignore[arg-type]
        SimpleNamespace(ready=True),  # type: ignore[arg-type]
        (),
    )
    found = {family.name: family.samples for family in collector.collect()}
    by_status = {each.labels["status"]: each.value for each in found["tidegate_deliveries"]}
    assert by_status == {"pending": 0, "delivered": 0, "dead": 0, "parked": 3}
    assert 60 <= found["tidegate_oldest_due_delivery_age_seconds"][0].value < 120

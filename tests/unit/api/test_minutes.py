"""What happens is counted by tenant and minute, once, in the transaction that writes its row."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.folding import fold, fold_inside, fold_records
from support.operator_cluster import make_event, make_job, make_letter
from support.outgoing_rows import make_attempt, make_delivery

from streams.api.overview.minutes import Minutes, minutes
from streams.api.overview.minutes_table import TALLY
from streams.api.read_model.database import Database, transaction
from streams.api.rows.tally import MINUTE_MS
from streams.process.wall_clock import wall_ms
from streams.runtime.processor import Record
from streams.serde.codec import DUPLICATE
from streams.serde.records import Duplicate

NOW = wall_ms()
HOUR_MS = 60 * MINUTE_MS


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "m.sqlite")
    yield made
    made.close()


@pytest.fixture
def rows(database: Database) -> Iterator[sqlite3.Connection]:
    opened = database.open_writer()
    yield opened
    opened.close()


def last(connection: sqlite3.Connection, now: int = NOW) -> dict[str, int]:
    """What is counted in the last minute, without what is 0."""
    found = minutes(connection, now, 1).of[0]
    return {name: count for name, count in found.items() if count}


def ended(job_id: str, status: str, at: int = NOW, **fields: Any) -> Any:
    return make_job(job_id, status=status, created_at=1, updated_at=at, **fields)


def made(job_id: str, at: int = NOW, **fields: Any) -> Any:
    return make_job(job_id, created_at=at, updated_at=at, **fields)


def duplicate(count: int, first_at: int = NOW, last_at: int = NOW) -> Record:
    value = DUPLICATE.encode(Duplicate("acme", count, first_at, last_at, None))
    return Record("duplicates", 0, 0, 0, b"\1" * 16, value)


def test_each_number_counts_its_own_rows(rows: sqlite3.Connection) -> None:
    fold(rows, *(make_event(f"k{n}") for n in range(3)), at=NOW)
    fold(rows, *(made(f"new-{n}") for n in range(4)))
    fold(rows, ended("a", "succeeded"), ended("b", "failed"), ended("c", "dead"))
    fold(rows, ended("d", "cancelled"), ended("e", "running"), ended("f", "needs_review"))
    sent = make_delivery()
    fold(rows, make_attempt(sent, 1, at=NOW), make_attempt(sent, 2, at=NOW))
    fold(rows, make_attempt(sent, 3, at=NOW, error=None, status=200))
    fold(rows, make_letter(make_job("c"), at=NOW))
    fold_records(rows, duplicate(5))
    assert last(rows) == {
        "events": 3,
        "duplicates": 5,
        "jobs": 4,
        "succeeded": 1,
        "failed": 2,
        "cancelled": 1,
        "delivered": 1,
        "failed_attempts": 2,
        "dead_letters": 1,
    }
    assert set(last(rows)) == set(TALLY.numbers)


def test_a_record_that_is_written_again_adds_nothing(rows: sqlite3.Connection) -> None:
    def everything() -> None:
        fold(rows, made("a"), ended("b", "dead"), make_letter(make_job("b"), at=NOW))
        fold_records(rows, duplicate(5))

    everything()
    once = last(rows)
    everything()
    assert last(rows) == once == {"jobs": 1, "failed": 1, "dead_letters": 1, "duplicates": 5}


def test_a_batch_that_is_not_committed_is_read_again_and_counts_once(
    rows: sqlite3.Connection,
) -> None:
    def batch(*, killed: bool) -> None:
        with transaction(rows):
            fold_inside(rows, make_event("k1"), make_attempt(make_delivery(), at=NOW), at=NOW)
            assert last(rows) == {"events": 1, "failed_attempts": 1}
            if killed:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        batch(killed=True)
    assert last(rows) == {}
    batch(killed=False)
    assert last(rows) == {"events": 1, "failed_attempts": 1}


def test_a_job_that_has_ended_counts_once_however_often_it_is_written(
    rows: sqlite3.Connection,
) -> None:
    dead = ended("a", "dead")
    fold(rows, dead)
    fold(rows, replace(dead, replayed_as="other"))
    assert last(rows) == {"failed": 1}


def test_a_job_that_lives_again_counts_again(rows: sqlite3.Connection) -> None:
    first = made("a")
    fold(rows, first)
    fold(rows, replace(first, status="dead"))
    fold(rows, replace(first, status="pending", updated_at=NOW + 1))
    fold(rows, replace(first, status="succeeded", updated_at=NOW + 2))
    assert last(rows) == {"jobs": 1, "failed": 1, "succeeded": 1}
    fold(rows, replace(first, incarnation=2, created_at=NOW + 3, updated_at=NOW + 3))
    assert last(rows)["jobs"] == 2


def test_a_job_whose_whole_life_is_in_one_batch_is_made_and_ends(rows: sqlite3.Connection) -> None:
    first = made("a")
    fold(rows, first, replace(first, status="running"), replace(first, status="succeeded"))
    assert last(rows) == {"jobs": 1, "succeeded": 1}


def test_duplicates_count_as_they_come_and_a_new_window_begins_anew(
    rows: sqlite3.Connection,
) -> None:
    for count, total in ((1, 1), (4, 4), (4, 4), (9, 9)):
        fold_records(rows, duplicate(count))
        assert last(rows) == {"duplicates": total}
    fold_records(rows, duplicate(2, first_at=NOW + 1))
    assert last(rows) == {"duplicates": 11}


def test_a_letter_that_is_replayed_is_no_new_one_but_one_that_is_dead_again_is(
    rows: sqlite3.Connection,
) -> None:
    letter = make_letter(make_job("a"), at=NOW)
    fold(rows, letter)
    fold(rows, replace(letter, replayed_at=NOW, replayed_as="b", note="x"))
    fold(rows, replace(letter, discarded_at=NOW, discard_note="x"))
    assert last(rows) == {"dead_letters": 1}
    fold(rows, replace(letter, at=NOW + 1))
    assert last(rows) == {"dead_letters": 2}


def test_what_happened_is_in_its_own_minute(rows: sqlite3.Connection) -> None:
    for ago in (0, 1, 1, 59, 60):
        fold(rows, make_event(f"k{ago}-{rows.total_changes}"), at=NOW - ago * MINUTE_MS)
    found = [each["events"] for each in minutes(rows, NOW).of]
    assert found == [1, *[0] * 57, 2, 1]


AGES = {
    "1970": 0,
    "1969": -1,
    "one": 1,
    "old": NOW - 3 * HOUR_MS,
    "early": NOW + HOUR_MS,
    "far": 2**62,
}


@pytest.mark.parametrize("at", AGES.values(), ids=AGES)
def test_a_time_of_long_ago_or_of_the_future_makes_no_minute(
    rows: sqlite3.Connection, at: int
) -> None:
    fold(rows, make_event(), at=at)
    fold(rows, make_job(created_at=at, updated_at=at, status="dead"))
    assert rows.execute("SELECT * FROM minutes").fetchall() == []


def test_each_tenant_has_its_minutes_and_all_have_theirs_together(
    rows: sqlite3.Connection, database: Database
) -> None:
    for n, tenant in enumerate(("acme", "acme", "beta", "gamma")):
        fold(rows, make_event(f"k{n}", tenant), at=NOW)
    fold(rows, make_letter(make_job("a", ""), at=NOW))  # nobody knows whose it is
    of: dict[frozenset[str] | None, Any] = {
        None: {"events": 4, "dead_letters": 1},
        frozenset({"acme"}): {"events": 2},
        frozenset({"beta", "gamma"}): {"events": 2},
        frozenset({"other"}): {},
        frozenset(): {},
    }
    for tenants, expected in of.items():
        assert database.read(last, tenants) == expected


def test_minutes_are_deleted_after_their_time(rows: sqlite3.Connection) -> None:
    for n, ago in enumerate((0, 61, 65)):
        fold(rows, make_event(f"k{n}"), at=NOW - ago * MINUTE_MS)
    assert rows.execute(TALLY.expire, (NOW - 60 * MINUTE_MS, 5_000)).rowcount == 4
    assert rows.execute("SELECT count(*) FROM minutes").fetchone() == (2,)
    plan = rows.execute(f"EXPLAIN QUERY PLAN {TALLY.expire}", (0, 1)).fetchall()
    assert "USING COVERING INDEX minutes_age (at<?)" in " ".join(row[3] for row in plan)


def test_a_rate_is_of_the_last_sixty_seconds() -> None:
    nothing = dict.fromkeys(TALLY.numbers, 0)
    before, present = nothing | {"events": 600}, nothing | {"events": 60, "duplicates": 30}
    at = 1_000 * MINUTE_MS
    assert Minutes(at, (before, nothing)).rate("events") == 10.0
    assert Minutes(at + 30_000, (before, present)).rate("events") == 6.0
    assert Minutes(at + 30_000, (before, present)).rate("events", "duplicates") == 6.5
    assert Minutes(at + MINUTE_MS - 1, (before, present)).rate("events") == 1.0

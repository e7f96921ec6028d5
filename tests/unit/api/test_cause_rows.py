"""Causes count their letters exactly, whatever is read again, replaced or deleted."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.operator_cluster import make_job, make_letter
from support.operator_desk import OperatorDesk

from streams.api.causes import standing
from streams.api.causes.counted_table import HOUR_MS, KEPT_BUCKETS, MINUTE_MS
from streams.api.causes.decision import Decision
from streams.api.causes.grouping import failure_of
from streams.api.read_model.database import Database
from streams.serde.codec import DEAD_LETTER, TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import DeadLetter

NOW = 1_700_000_000_000
COUNTED = """
SELECT cause, tenant, count(*), sum(replayed = 0 AND discarded = 0 AND manual = 0), min(at), max(at)
FROM (SELECT *, tenant_id AS tenant FROM dead_letters
      UNION ALL SELECT *, '*' FROM dead_letters)
GROUP BY cause, tenant ORDER BY cause, tenant
"""


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = Database(tmp_path / "m.sqlite").open_writer()
    yield opened
    opened.close()


@pytest.fixture
def desk(rows: sqlite3.Connection) -> OperatorDesk:
    return OperatorDesk(rows)


def letter(number: int, **fields: Any) -> DeadLetter:
    given: dict[str, Any] = {"at": NOW, "detail": "KeyError: 'a'"} | fields
    job = make_job(f"job_{number}", given.pop("tenant_id", "acme"), type=given.pop("type", "t"))
    return make_letter(job, **given)


def fold(desk: OperatorDesk, *letters: DeadLetter) -> None:
    """Fold letters one by one, as if each came alone."""
    for each in letters:
        desk.project([("dlq", each.id.encode(), DEAD_LETTER.encode(each))])


def causes(rows: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return rows.execute(
        "SELECT id, tenant_id, letters, open, first_at, last_at FROM causes ORDER BY id, tenant_id"
    ).fetchall()


def require_exact(rows: sqlite3.Connection, now: int = NOW) -> None:
    """Compare what is counted with a count of all letters, and of the hours until `now`."""
    assert causes(rows) == rows.execute(COUNTED).fetchall()
    hit = rows.execute("SELECT id, tenants FROM causes WHERE tenant_id = '*' ORDER BY id")
    assert (
        hit.fetchall()
        == rows.execute(
            "SELECT cause, count(DISTINCT nullif(tenant_id, '')) FROM dead_letters"
            " GROUP BY cause ORDER BY cause"
        ).fetchall()
    )
    for cause_id, whose in rows.execute("SELECT id, tenant_id FROM causes"):
        for width, number in KEPT_BUCKETS.items():
            since = (now // width - number + 1) * width
            own = "" if whose == "*" else " AND tenant_id = :whose"
            expected = rows.execute(
                "SELECT at / :width * :width AS bucket, count(*) FROM dead_letters WHERE"
                f" cause = :id AND at >= :since{own} GROUP BY bucket ORDER BY bucket",
                {"id": cause_id, "whose": whose, "width": width, "since": since},
            )
            found = rows.execute(
                "SELECT at, letters FROM cause_counts WHERE id = ? AND tenant_id = ?"
                " AND width = ? AND at >= ? ORDER BY at",
                (cause_id, whose, width, since),
            )
            assert found.fetchall() == expected.fetchall()


def test_a_letter_counts_once_however_often_it_is_read(
    desk: OperatorDesk, rows: sqlite3.Connection
) -> None:
    one = letter(1)
    fold(desk, one, one, letter(2, at=NOW + 5), one)
    (all_, own) = causes(rows)
    assert all_[1:] == ("*", 2, 2, NOW, NOW + 5)
    assert own[1:] == ("acme", 2, 2, NOW, NOW + 5)
    require_exact(rows)


def test_a_letter_that_was_replayed_or_discarded_is_open_no_more(
    desk: OperatorDesk, rows: sqlite3.Connection
) -> None:
    one, two, three = letter(1), letter(2), letter(3)
    fold(desk, one, two, three)
    fold(desk, replace(one, replayed_at=NOW, replayed_as="job_n"), replace(two, discarded_at=NOW))
    assert [row[2:4] for row in causes(rows)] == [(3, 1), (3, 1)]
    fold(desk, replace(one, replayed_at=NOW, replay_outcome="failed"))
    assert [row[2:4] for row in causes(rows)] == [(3, 2), (3, 2)]
    require_exact(rows)


def test_a_letter_with_another_failure_moves_to_another_cause(
    desk: OperatorDesk, rows: sqlite3.Connection
) -> None:
    fold(desk, letter(1), letter(1, detail="ValueError: b", at=NOW + 9))
    assert [row[2:] for row in causes(rows)] == [(1, 1, NOW + 9, NOW + 9)] * 2
    require_exact(rows)


def test_a_cause_is_gone_with_its_last_letter(desk: OperatorDesk, rows: sqlite3.Connection) -> None:
    fold(desk, letter(1), letter(2, tenant_id="beta"))
    desk.project([("dlq", b"job_1", None)])
    assert [row[1] for row in causes(rows)] == ["*", "beta"]
    require_exact(rows)
    desk.project([("dlq", b"job_2", None)])
    assert causes(rows) == []
    assert rows.execute("SELECT * FROM cause_counts").fetchall() == []


def test_whatever_happens_to_letters_the_counts_are_those_of_the_letters(
    desk: OperatorDesk, rows: sqlite3.Connection
) -> None:
    dice = random.Random(7)
    for turn in range(1_500):
        number = dice.randrange(40)
        if dice.random() < 0.2:
            desk.project([("dlq", f"job_{number}".encode(), None)])
        else:
            at = NOW + turn * 40_000 + dice.randrange(-3_000_000, 1)
            marks = dice.choice([{}, {}, {"replayed_at": 1}, {"discarded_at": 1}, {"manual_at": 1}])
            detail = dice.choice(["KeyError: 'a'", "ValueError: b", "OSError: c"])
            tenant = dice.choice(["acme", "beta", "gamma", ""])
            fold(desk, letter(number, at=at, detail=detail, tenant_id=tenant, **marks))
        if turn % 50 == 0:
            require_exact(rows, NOW + turn * 40_000)
    rows.execute("DELETE FROM dead_letters WHERE at < ?", (NOW + 700 * 40_000,))
    require_exact(rows, NOW + 1_500 * 40_000)


def test_buckets_older_than_what_is_shown_are_not_kept(
    desk: OperatorDesk, rows: sqlite3.Connection
) -> None:
    fold(desk, *(letter(n, at=NOW + n * 10 * MINUTE_MS) for n in range(400)))
    kept = dict(
        rows.execute(
            "SELECT width, count(*) FROM cause_counts WHERE tenant_id = '*' GROUP BY width"
        ).fetchall()
    )
    assert kept[HOUR_MS] <= KEPT_BUCKETS[HOUR_MS] + 1
    assert kept[MINUTE_MS] <= 7


def test_a_decision_counts_whichever_topic_is_read_first(
    desk: OperatorDesk, rows: sqlite3.Connection
) -> None:
    first = letter(1)
    cause_id = failure_of(first).cause_id
    record = Decision(cause_id, "resolved", "ops", "mended", NOW + 1).record("")
    decided = ("tenants", tenant_key("", "cause", cause_id), TENANT.encode(record))
    desk.project([decided])
    fold(desk, first)
    state = "SELECT tenant_id, state FROM causes ORDER BY tenant_id"
    assert rows.execute(state).fetchall() == [("*", "resolved"), ("acme", "resolved")]
    fold(desk, letter(2, at=NOW + 2))
    assert rows.execute(state).fetchall() == [("*", "open"), ("acme", "open")]
    desk.project([(*decided[:2], None)])
    assert rows.execute("SELECT decision FROM causes").fetchall() == [(None,), (None,)]


def test_the_newest_of_a_tenants_and_the_common_decision_counts(
    desk: OperatorDesk, rows: sqlite3.Connection
) -> None:
    one, other = letter(1), letter(2, tenant_id="beta")
    fold(desk, one, other)
    cause_id = failure_of(one).cause_id
    for at, tenant, state in (
        (NOW + 1, "acme", "ignored"),
        (NOW + 2, "", "resolved"),
        (NOW + 3, "beta", "open"),
    ):
        record = Decision(cause_id, state, "ops", "why", at).record(tenant)  # type: ignore[arg-type]
        key = tenant_key(tenant, "cause", cause_id)
        desk.project([("tenants", key, TENANT.encode(record))])
    found = rows.execute("SELECT tenant_id, state FROM causes ORDER BY tenant_id").fetchall()
    assert found == [("*", "resolved"), ("acme", "resolved"), ("beta", "open")]


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"state": "open"},
        {"state": "resolved"},
        {"state": "ignored"},
        {"job_type": "t"},
        {"job_type": "t", "state": "open"},
        {"tenant_id": "acme", "state": "open"},
    ],
)
def test_no_list_reads_or_sorts_all_causes(
    rows: sqlite3.Connection, filters: dict[str, str]
) -> None:
    asked = list[str]()
    rows.set_trace_callback(asked.append)
    standing.page(rows, filters, 50, None, NOW)
    rows.set_trace_callback(None)
    assert asked
    for sql in asked:
        plan = [row[3] for row in rows.execute(f"EXPLAIN QUERY PLAN {sql}")]
        assert plan
        assert all(each.startswith("SEARCH") for each in plan), (sql, plan)


def test_the_letters_of_a_cause_are_found_by_an_index(rows: sqlite3.Connection) -> None:
    for where in ("cause = 'x'", "cause = 'x' AND tenant_id = 'acme'"):
        sql = f"SELECT at, id FROM dead_letters WHERE {where} ORDER BY at DESC, id DESC LIMIT 9"
        plan = [row[3] for row in rows.execute(f"EXPLAIN QUERY PLAN {sql}")]
        assert len(plan) == 1
        assert "dead_letters_of_cause" in plan[0]


def test_the_triggers_search_and_never_scan(desk: OperatorDesk, rows: sqlite3.Connection) -> None:
    """Folding a letter costs the same among a thousand letters as among ten."""

    def steps() -> int:
        found = [0]

        def count() -> int:
            found[0] += 1
            return 0

        rows.set_progress_handler(count, 1)
        fold(desk, letter(1))
        rows.set_progress_handler(None, 0)
        return found[0]

    fold(desk, *(letter(n) for n in range(10)))
    few = steps()
    fold(desk, *(letter(n, detail=f"KeyError: {'x' * (n % 200)}") for n in range(2_000)))
    assert steps() < few * 2

"""What is counted for people is what the named list shows, whatever became of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.operator_cluster import make_entry, make_job, make_letter
from support.outgoing_rows import make_delivery

from streams.api.backlog import table as backlog
from streams.api.dead_letters import table as dead_letters
from streams.api.dead_letters.to_replay import selected
from streams.api.deliveries import table as deliveries
from streams.api.effects import unknown_table as unknown_effects
from streams.api.quarantine import table as quarantine
from streams.api.read_model.database import Database
from streams.api.read_model.projections import Changes, project
from streams.api.rows.paging import Listing, PageQuery
from streams.operator.metrics import ReadModelCollector
from streams.runtime.processor import Record
from streams.serde.codec import BACKLOG, DEAD_LETTER, DELIVERY, JOB, LEDGER_ENTRY
from streams.serde.delivery_records import Delivery
from streams.serde.keys import ledger_key
from streams.serde.records import Backlog, BacklogDepth, DeadLetter, Job, LedgerEntry
from streams.topology.limits import MaxQueued

Row = Job | LedgerEntry | DeadLetter | Delivery | Backlog
CAPS = (MaxQueued("tenant", 3),)
RUNNING, ENDED = make_job("job_r", status="running"), make_job("job_e", status="dead")
ROWS: list[Row] = [
    make_letter(make_job("job_open"), at=1),
    make_letter(make_job("job_marked"), at=2, replayed_at=3, replayed_as="job_x"),
    make_letter(make_job("job_gone"), at=3, discarded_at=4),
    make_letter(make_job("job_both"), at=4, replayed_at=5, discarded_at=6),
    make_letter(make_job("job_made"), at=5),
    make_job("job_y", replay_of="job_made"),
    make_job("job_z", "globex", replay_of="job_open"),
    RUNNING,
    ENDED,
    replace(make_entry(RUNNING, "email:send/a"), status="claimed"),
    replace(make_entry(ENDED, "email:send/b"), status="claimed"),
    replace(make_entry(ENDED, "email:send/c"), status="done"),
    make_delivery("dlv_a", status="parked"),
    make_delivery("dlv_b", status="parked", kind="test"),
    make_delivery("dlv_c", status="delivered"),
    Backlog(0, (BacklogDepth("tenant", "acme", 3), BacklogDepth("tenant", "bolt", 2))),
]
"""One of each kind, some of which wait for a person."""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = Database(tmp_path / "m.sqlite")
    writer = found.open_writer()
    batch: dict[str, Changes] = {}
    for row in ROWS:
        project(record_of(row), batch)
    for changes in batch.values():
        changes.write(writer)
    for n, status in enumerate(("waiting", "released", "waiting")):
        kept = ("acme", "shop", f"hash-{n}", f"evt_{n}", status, 1, b"")
        writer.execute("INSERT INTO quarantine VALUES (?, ?, ?, ?, ?, ?, ?)", kept)
    yield found
    writer.close()
    found.close()


def record_of(row: Row) -> Record:
    match row:
        case Job():
            topic, key, value = "jobs", row.job_id.encode(), JOB.encode(row)
        case LedgerEntry():
            key = ledger_key(row.tenant_id, row.scope, row.action)
            topic, value = "ledger", LEDGER_ENTRY.encode(row)
        case DeadLetter():
            topic, key, value = "dlq", row.id.encode(), DEAD_LETTER.encode(row)
        case Backlog():
            topic, key, value = "jobs.backlog", b"0", BACKLOG.encode(row)
        case _:
            topic, key, value = "deliveries", row.delivery_id.encode(), DELIVERY.encode(row)
    return Record(topic, 0, 0, 1, key, value)


class Follower:
    ready = True


def counted(database: Database, name: str, **labels: str) -> float:
    """The value that Prometheus and `tidegate doctor` read."""
    follower: Any = Follower()
    families = ReadModelCollector(database, follower, CAPS).collect()
    (value,) = (
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
    return value


def listed(listing: Listing, filters: dict[str, str]) -> Any:
    """How many items a list shows, without looking into them."""

    def length(connection: sqlite3.Connection) -> int:
        plain = replace(listing, item=lambda _, entry: {"id": entry.id})
        return len(plain.page(connection, PageQuery(100, None, dict(filters))).items)

    return length


@pytest.mark.parametrize(
    ("metric", "labels", "listing", "filters", "number"),
    [
        ("tidegate_dead_letters", {}, dead_letters.LISTING, {"not_replayed": "true"}, 1),
        ("tidegate_unknown_effects", {}, unknown_effects.LISTING, {}, 1),
        ("tidegate_quarantined_bodies", {}, quarantine.LISTING, {"status": "waiting"}, 2),
        (
            "tidegate_deliveries",
            {"status": "parked"},
            deliveries.LISTING,
            {"status": "parked"},
            2,
        ),
    ],
)
def test_a_count_is_that_of_the_list_that_shows_its_items(
    database: Database,
    metric: str,
    labels: dict[str, str],
    listing: Listing,
    filters: dict[str, str],
    number: int,
) -> None:
    assert counted(database, metric, **labels) == number
    assert database.read(listed(listing, filters)) == number


def test_full_backlogs_are_those_that_the_list_shows_as_full(database: Database) -> None:
    listed = database.read(lambda db: backlog.backlog(db, CAPS).known())
    assert [each.is_full for each in listed] == [True, False]
    assert counted(database, "tidegate_full_backlogs") == 1


def test_letters_that_are_counted_are_those_that_a_replay_of_all_would_take(
    database: Database,
) -> None:
    found = database.read(lambda db: selected(db, {}, 10, None))
    assert found.matched.count == counted(database, "tidegate_dead_letters") == 1

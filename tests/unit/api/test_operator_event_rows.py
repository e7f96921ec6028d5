"""Events of the last hours: their lists, and all that became of one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.operator_cluster import (
    event_job,
    make_entry,
    make_event,
    make_job,
    make_letter,
    make_quarantined,
)

from streams.api.effects import table as effects
from streams.api.effects import unknown_table as unknown_effects
from streams.api.events import table as events
from streams.api.events.story import shown_event
from streams.api.read_model.database import Database
from streams.api.read_model.projections import (
    Changes,
    kept_ms,
    oldest_wanted,
    project,
    reports_poison,
)
from streams.api.rows.cursor import Cursor
from streams.api.rows.paging import PageQuery
from streams.api.tables import TABLES
from streams.runtime.processor import Record
from streams.serde.codec import DEAD_LETTER, DUPLICATE, ENVELOPE, JOB, LEDGER_ENTRY, QUARANTINED
from streams.serde.records import (
    DeadLetter,
    Duplicate,
    Envelope,
    Job,
    LedgerEntry,
    PayloadRef,
    Quarantined,
)
from streams.settings import Settings
from streams.topology.load import load
from streams.topology.model import Cancels, Events, JobType, Route

CODECS: dict[type, tuple[str, Any]] = {
    Envelope: ("events", ENVELOPE),
    Job: ("jobs", JOB),
    LedgerEntry: ("ledger", LEDGER_ENTRY),
    DeadLetter: ("dlq", DEAD_LETTER),
    Quarantined: ("quarantine", QUARANTINED),
}
AT = 1_700_000_000_500
HOUR_MS = 3_600_000
TOPOLOGY = load()


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = Database(tmp_path / "m.sqlite").open_writer()
    yield opened
    opened.close()


def fold(connection: sqlite3.Connection, *values: Any, at: int = AT) -> None:
    """Fold records; those of events are at offsets from 40 of partition 3."""
    batch: dict[str, Changes] = {}
    for offset, value in enumerate(values, 40):
        if isinstance(value, tuple):
            key, counted = value
            project(Record("duplicates", 0, 0, at, key, DUPLICATE.encode(counted)), batch)
        else:
            topic, codec = CODECS[type(value)]
            project(Record(topic, 3, offset, at, b"", codec.encode(value)), batch)
    for changes in batch.values():
        changes.write(connection)


def listed(connection: sqlite3.Connection, limit: int = 50, **only: str) -> list[str]:
    page = events.LISTING.page(connection, PageQuery(limit, None, only))
    return [each["event_id"] for each in page.items]


def test_a_row_has_what_finds_an_event_and_the_job_that_it_has(
    connection: sqlite3.Connection,
) -> None:
    event = make_event("t-1", subject="order 7", event_type="order.paid")
    fold(connection, event)
    (row,) = events.LISTING.page(connection, PageQuery(5)).items
    assert row == {
        "event_id": "evt_t-1",
        "tenant_id": "acme",
        "source": "shop",
        "event_type": "order.paid",
        "subject": "order 7",
        "dedup_key": "t-1",
        "received_at": "2023-11-14T22:13:20.000Z",
        "job_id": None,
        "size": 12,
    }
    job = event_job(event)
    fold(connection, job)
    (row,) = events.LISTING.page(connection, PageQuery(5)).items
    assert row["job_id"] == job.job_id


def test_filters_combine_and_a_type_is_a_glob_as_in_a_route(
    connection: sqlite3.Connection,
) -> None:
    for number, (tenant_id, source, type_) in enumerate(
        [
            ("acme", "shop", "order.paid"),
            ("acme", "shop", "order.sent"),
            ("acme", "desk", "order.paid"),
            ("bolt", "shop", "ticket"),
        ]
    ):
        event = make_event(f"k{number}", tenant_id, source=source, event_type=type_)
        fold(connection, event, at=AT + number)
    assert listed(connection) == ["evt_k3", "evt_k2", "evt_k1", "evt_k0"]
    assert listed(connection, tenant_id="acme", source="shop") == ["evt_k1", "evt_k0"]
    assert listed(connection, event_type="order.*") == ["evt_k2", "evt_k1", "evt_k0"]
    assert listed(connection, event_type="order.[!s]*", source="shop") == ["evt_k0"]
    assert listed(connection, event_type="order") == []
    assert listed(connection, tenant_id="bolt", event_type="order.*") == []


def test_an_event_is_found_by_its_whole_subject_and_by_its_dedup_key(
    connection: sqlite3.Connection,
) -> None:
    for number, subject in enumerate(("ticket 1", "ticket 12", None, "ticket 1")):
        event = make_event(f"k{number}", "bolt" if number == 3 else "acme", subject=subject)
        fold(connection, event, at=AT + number)
    assert listed(connection, subject="ticket 1") == ["evt_k3", "evt_k0"]
    assert listed(connection, subject="ticket 1", tenant_id="acme") == ["evt_k0"]
    assert listed(connection, subject="ticket") == []
    assert listed(connection, dedup_key="k2") == ["evt_k2"]
    assert listed(connection, dedup_key="k2", subject="ticket 1") == []
    assert listed(connection, dedup_key="k2", tenant_id="bolt") == []


@pytest.mark.parametrize("only", [{"subject": "x"}, {"subject": "x", "tenant_id": "acme"}])
def test_pages_of_a_subject_go_on_behind_the_last_event(
    connection: sqlite3.Connection, only: dict[str, str]
) -> None:
    for number in range(6):
        subject = "y" if number == 2 else "x"
        fold(connection, make_event(f"k{number}", subject=subject), at=AT + number // 3)
    first = events.LISTING.page(connection, PageQuery(2, None, only))
    second = events.LISTING.page(connection, PageQuery(9, first.next, only))
    seen = [each["event_id"] for each in (*first.items, *second.items)]
    assert seen == [f"evt_k{n}" for n in (5, 4, 3, 1, 0)]


def test_pages_show_each_event_once_although_many_share_a_moment(
    connection: sqlite3.Connection,
) -> None:
    for number in range(7):
        fold(connection, make_event(f"k{number}"), at=AT + number // 4)
    seen, cursor = list[str](), None
    while True:
        page = events.LISTING.page(connection, PageQuery(2, cursor, {"tenant_id": "acme"}))
        seen += [each["event_id"] for each in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert seen == [f"evt_k{n}" for n in (6, 5, 4, 3, 2, 1, 0)]


def test_unrouted_events_are_those_without_a_job(connection: sqlite3.Connection) -> None:
    waits, came_late = make_event("k1", routed=False), make_event("k2", routed=False)
    fold(connection, make_event("k0"), waits, came_late, event_job(came_late))
    assert listed(connection, unrouted="true") == ["evt_k1"]


@pytest.mark.parametrize(
    ("only", "index"),
    [
        ({}, "events_newest"),
        ({"event_type": "order.*"}, "events_newest"),
        ({"tenant_id": "acme"}, "events_of_tenant"),
        ({"unrouted": "true"}, "events_unrouted"),
        *(
            ({name: "x", **more}, index)
            for name, index in (("subject", "events_of_subject"), ("dedup_key", "events_of_key"))
            for more in ({}, {"tenant_id": "acme"}, {"source": "s", "event_type": "t*"})
        ),
    ],
)
def test_a_list_reads_its_index_and_sorts_no_more_than_a_moment(
    connection: sqlite3.Connection, only: dict[str, str], index: str
) -> None:
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    events.LISTING.page(connection, PageQuery(5, None, only))
    connection.set_trace_callback(None)
    plan = connection.execute(f"EXPLAIN QUERY PLAN {statements[0]}").fetchall()
    text = " ".join(row[3] for row in plan)
    assert index in text
    assert "USE TEMP B-TREE FOR ORDER BY" not in text


@pytest.mark.parametrize("name", ["subject", "dedup_key"])
@pytest.mark.parametrize("tenants", [None, frozenset({"acme"}), frozenset({"acme", "bolt"})])
def test_a_subject_or_a_key_is_found_among_the_tenants_of_who_asks_without_reading_all_of_theirs(
    tmp_path: Path, name: str, tenants: frozenset[str] | None
) -> None:
    database = Database(tmp_path / "m.sqlite")
    writer = database.open_writer()
    for number, tenant in enumerate(("acme", "bolt", "cora")):
        fold(writer, replace(make_event("x", tenant, subject="x"), event_id=f"evt_{number}"))
    all_ = PageQuery(9, None, {name: "x"})
    page = database.read(lambda db: events.LISTING.page(db, all_), tenants)
    found = sorted(each["event_id"] for each in page.items)
    assert found == [f"evt_{n}" for n in range(len(tenants or "acm"))]
    writer.close()
    query = PageQuery(5, Cursor(AT, "evt_x"), {name: "x", "tenant_id": "acme"})

    def plan(connection: sqlite3.Connection) -> str:
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        events.LISTING.page(connection, query)
        connection.set_trace_callback(None)
        steps = connection.execute(f"EXPLAIN QUERY PLAN {statements[0]}")
        return " ".join(row[3] for row in steps)

    used = database.read(plan, tenants)
    database.close()
    assert {"subject": "of_subject", "dedup_key": "of_key"}[name] in used, used


def test_an_events_story_has_everything_that_became_of_it(connection: sqlite3.Connection) -> None:
    event = make_event("t-1", attributes={"team": "a"})
    job = event_job(event, status="dead")
    again = make_job("r1", replay_of=job.job_id, status="dead", replay_note="once more")
    third = make_job("r2", replay_of="r1", status="succeeded", created_at=job.created_at + 9)
    record = DeadLetter(
        "dispatcher:events:3:40", "record", "", "output_refused", "large", "dispatcher", AT
    )
    kept = make_quarantined(b"{}", PayloadRef(0, (0,), 2, "kek"))
    fold(
        connection,
        event,
        job,
        make_entry(job, "email:send/reply"),
        again,
        third,
        make_letter(job),
        make_letter(again),
        record,
        (event.fingerprint, Duplicate("acme", 3, AT, AT + 5, "evt_dup")),
    )
    story = shown_event(connection, event.event_id, TOPOLOGY)
    assert story is not None
    assert (story["partition"], story["offset"], story["attributes"]) == (3, 40, {"team": "a"})
    assert story["duplicates"]["count"] == 3
    assert story["duplicates"]["last_event_id"] == "evt_dup"
    assert (story["job_id"], story["job"]["status"]) == (job.job_id, "dead")
    assert [each["action"] for each in story["job"]["effects"]] == ["email:send/reply"]
    assert [(each["job_id"], each["note"]) for each in story["replays"]] == [
        ("r2", None),
        ("r1", "once more"),
    ]
    assert [each["id"] for each in story["dead_letters"]] == [
        job.job_id,
        "r1",
        "dispatcher:events:3:40",
    ]
    assert story["quarantine"] is None
    released = make_event("k9", event_id=kept.event_id, routed=False)
    fold(connection, make_event("k8"), released, kept)
    story = shown_event(connection, kept.event_id, TOPOLOGY)
    assert story is not None
    assert (story["job"], story["replays"], story["dead_letters"]) == (None, [], [])
    assert story["quarantine"]["reason"] == "dedup_key"
    assert shown_event(connection, "evt_none", TOPOLOGY) is None


def test_an_event_whose_route_only_cancels_is_not_unrouted_and_names_its_route(
    connection: sqlite3.Connection,
) -> None:
    """The ingress writes that it had a route."""
    event = make_event("k1", routed=True)
    fold(connection, event)
    assert listed(connection, unrouted="true") == []
    ends = Cancels("follow_up", "subject")
    route = Route(event.source, event.event_type, None, "webhook", ends)
    story = shown_event(connection, event.event_id, replace(TOPOLOGY, routes=(route,)))
    assert story is not None
    assert (story["job"], story["route"]["job"]) == (None, None)
    assert story["route"]["cancels"] == {"job": "follow_up", "by": "subject"}


def test_a_story_names_the_job_types_that_wait_for_such_events(
    connection: sqlite3.Connection,
) -> None:
    event = make_event("k1", routed=False)
    fold(connection, event)
    types = {
        "follow_up": JobType("follow_up", waits_for=(Events(event_type=event.event_type),)),
        "other": JobType("other", waits_for=(Events(event_type="none.such"),)),
        "elsewhere": JobType("elsewhere", waits_for=(Events("none", event.event_type),)),
    }
    story = shown_event(connection, event.event_id, replace(TOPOLOGY, job_types=types))
    assert story is not None
    assert story["awaited_by"] == ["follow_up"]


def test_no_other_tenant_is_in_a_story(connection: sqlite3.Connection) -> None:
    event = make_event("t-1")
    job = event_job(event)
    fold(
        connection,
        event,
        job,
        make_job("r1", "bolt", replay_of=job.job_id),
        (event.fingerprint, Duplicate("bolt", 3, AT, AT + 5, None)),
    )
    story = shown_event(connection, event.event_id, TOPOLOGY)
    assert story is not None
    assert (story["replays"], story["duplicates"]) == ([], None)


def test_duplicates_of_an_earlier_window_are_not_this_events(
    connection: sqlite3.Connection,
) -> None:
    event = make_event("t-1")
    fold(connection, event, (event.fingerprint, Duplicate("acme", 3, AT - 9, AT - 5, None)))
    story = shown_event(connection, event.event_id, TOPOLOGY)
    assert story is not None
    assert story["duplicates"] is None


def test_events_are_kept_as_long_as_the_setting_says_and_not_longer_than_their_topic() -> None:
    topology = load()
    kept = {t.name: kept_ms(t, Settings(events_listed_hours=2), topology) for t in TABLES}
    assert kept["events"] == 2 * HOUR_MS
    assert kept["dead_letters"] == topology.topics["dlq"].retention_ms
    assert kept["jobs"] is None
    settings = Settings(events_listed_hours=2, live_kept_hours=3)
    oldest = {"events": AT - 2 * HOUR_MS, "jobs.live": AT - 3 * HOUR_MS}
    assert oldest_wanted(settings, AT) == oldest
    (table,) = (t for t in TABLES if t.name == "events")
    long = Settings(events_listed_hours=9_999)
    assert kept_ms(table, long, topology) == topology.topics["events"].retention_ms


def test_a_broken_record_is_reported_by_the_process_that_needs_it() -> None:
    """Of `events` and grants that is the dispatcher, of `tenants` the ingress."""
    silent = {table.topic for table in TABLES if not reports_poison(table.topic)}
    assert silent == {"events", "limits.grants", "tenants"}


@pytest.mark.parametrize(
    ("effect", "job", "shown"),
    [
        ("unknown", "cancelled", True),
        ("claimed", "dead", True),
        ("review", "failed", True),
        ("unknown", "needs_review", False),
        ("claimed", "running", False),
        ("unknown", "pending", False),
        ("done", "cancelled", False),
        ("failed", "dead", False),
    ],
)
def test_effects_that_nobody_is_asked_for_are_those_of_jobs_that_ended(
    connection: sqlite3.Connection, effect: str, job: Any, shown: bool
) -> None:
    owner = make_job(status=job)
    fold(connection, owner, make_entry(owner, "email:send/a/b", status=effect))
    page = unknown_effects.LISTING.page(connection, PageQuery(5))
    assert bool(page.items) == shown
    if shown:
        assert (
            page.items[0].items()
            >= {
                "tenant_id": "acme",
                "job_id": "job_a",
                "type": "draft_reply",
                "job_status": job,
                "tool": "email:send",
                "key": "a/b",
                "status": effect,
                "arguments_sha256": "01" * 32,
                "began_at": "2023-11-14T22:13:21.000Z",
                "run_id": "run_1",
            }.items()
        )


def test_a_replay_that_lives_asks_for_its_scopes_effects_itself(
    connection: sqlite3.Connection,
) -> None:
    dead = make_job(status="dead")
    replay = make_job("r1", scope=dead.scope, replay_of="job_a")
    fold(connection, dead, make_entry(dead, "email:send/x", status="unknown"))
    assert unknown_effects.LISTING.page(connection, PageQuery(5)).items
    fold(connection, replay)
    assert not unknown_effects.LISTING.page(connection, PageQuery(5)).items


@pytest.mark.parametrize("tenant", [None, "acme"])
def test_unknown_effects_are_read_from_their_index_in_pages(
    connection: sqlite3.Connection, tenant: str | None
) -> None:
    jobs = [make_job(f"job_{n}", status="dead") for n in range(5)]
    lost = [make_entry(j, "t/x", status="unknown", idempotency_key=j.job_id) for j in jobs]
    fold(connection, *jobs, *lost)
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    of = {"tenant_id": tenant}
    first = unknown_effects.LISTING.page(connection, PageQuery(3, None, of))
    connection.set_trace_callback(None)
    second = unknown_effects.LISTING.page(connection, PageQuery(3, first.next, of))
    seen = [each["job_id"] for each in (*first.items, *second.items)]
    assert seen == [f"job_{n}" for n in (4, 3, 2, 1, 0)]
    plan = connection.execute(f"EXPLAIN QUERY PLAN {statements[0]}").fetchall()
    used = " ".join(row[3] for row in plan)
    indexes = ("effects_unsettled", "jobs_of_scope", "j USING INDEX sqlite_autoindex_jobs_1")
    assert all(index in used for index in indexes), used


@pytest.mark.parametrize(
    ("filters", "index"),
    [
        ({}, "effects_newest"),
        ({"tenant_id": "acme", "tool": "t"}, "effects_of_tenant"),
        ({"tenant_id": "acme", "tool": "t", "key": "x"}, "effects_by_key"),
    ],
)
def test_effects_across_jobs_are_read_in_the_order_of_an_index(
    connection: sqlite3.Connection, filters: dict[str, str], index: str
) -> None:
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    effects.LISTING.page(connection, PageQuery(3, None, filters))
    connection.set_trace_callback(None)
    plan = connection.execute(f"EXPLAIN QUERY PLAN {statements[0]}").fetchall()
    used = " ".join(row[3] for row in plan)
    assert (index in used, "TEMP B-TREE" in used) == (True, False), used

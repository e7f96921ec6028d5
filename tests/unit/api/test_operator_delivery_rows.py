"""Deliveries: their lists, their attempts, and what an event and a job say of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.operator_cluster import event_job, make_event
from support.outgoing_rows import AT, make_attempt, make_delivery, make_recovery, make_state

from streams.api.deliveries import attempts_table as attempts
from streams.api.deliveries import table as deliveries
from streams.api.deliveries.table import RecoveryRange
from streams.api.events.story import shown_event
from streams.api.jobs import table as jobs
from streams.api.read_model.database import Database
from streams.api.read_model.projections import Changes, kept_ms, project
from streams.api.rows.paging import PageQuery
from streams.operator.counts import counts
from streams.runtime.processor import Record
from streams.serde.codec import DELIVERY, DELIVERY_ATTEMPT, ENDPOINT_STATE, ENVELOPE, JOB, TENANT
from streams.serde.delivery_records import Delivery, DeliveryAttempt, EndpointState
from streams.serde.keys import tenant_key
from streams.serde.records import Envelope, Job, TenantRecord
from streams.settings import Settings
from streams.topology.load import load

CODECS: dict[type, tuple[str, Any]] = {
    Delivery: ("deliveries", DELIVERY),
    Envelope: ("events", ENVELOPE),
    Job: ("jobs", JOB),
    DeliveryAttempt: ("deliveries.attempts", DELIVERY_ATTEMPT),
    EndpointState: ("deliveries.endpoints", ENDPOINT_STATE),
    TenantRecord: ("tenants", TENANT),
}


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = Database(tmp_path / "m.sqlite").open_writer()
    yield opened
    opened.close()


def fold(connection: sqlite3.Connection, *values: Any) -> None:
    batch: dict[str, Changes] = {}
    for value in values:
        topic, codec = CODECS[type(value)]
        key = tenant_key(value.tenant_id, value.kind, value.id) if topic == "tenants" else b""
        project(Record(topic, 0, 0, AT, key, codec.encode(value)), batch)
    for changes in batch.values():
        changes.write(connection)


def listed(connection: sqlite3.Connection, **only: str | int) -> list[str]:
    page = deliveries.LISTING.page(connection, PageQuery(50, None, only))
    return [each["delivery_id"] for each in page.items]


def test_a_list_shows_the_last_attempts_and_a_single_delivery_all_that_are_kept(
    connection: sqlite3.Connection,
) -> None:
    row = make_delivery(attempts=5, last_status=503, last_error="http_status")
    fold(connection, row, *(make_attempt(row, n) for n in (2, 3, 4, 5)))
    (shown,) = deliveries.LISTING.page(connection, PageQuery(5)).items
    assert [each["attempt"] for each in shown["attempts"]] == [3, 4, 5]
    assert shown["attempt_count"] == 5
    alone = deliveries.shown_delivery(connection, "dlv_a")
    assert alone is not None
    assert [each["attempt"] for each in alone["attempts"]] == [2, 3, 4, 5]
    assert alone["attempts"][0] == {
        "attempt": 2,
        "at": "2023-11-14T22:13:20.002Z",
        "duration_ms": 12,
        "address": "192.0.2.7",
        "status": 503,
        "error": "http_status",
        "detail": "503 Service Unavailable",
        "excerpt": "busy",
        "next_attempt_at": "2023-11-14T22:13:25.000Z",
    }
    assert shown == alone | {"attempts": alone["attempts"][1:]}


def test_a_delivery_says_where_it_goes_and_how_far_it_is(connection: sqlite3.Connection) -> None:
    fold(connection, make_delivery(status="parked", parked_because="endpoint_disabled"))
    assert deliveries.shown_delivery(connection, "dlv_a") == {
        "delivery_id": "dlv_a",
        "tenant_id": "acme",
        "endpoint_id": "crm",
        "event_id": "evt_k1",
        "job_id": None,
        "message_id": "evt_k1",
        "type": "order.paid",
        "source": "shop",
        "kind": "event",
        "status": "parked",
        "attempts": [],
        "attempt_count": 0,
        "next_attempt_at": None,
        "parked_because": "endpoint_disabled",
        "last_status": None,
        "last_error": None,
        "waits": None,
        "url": None,
        "format": "cloudevents",
        "command_id": None,
        "trace_id": "a" * 32,
        "created_at": "2023-11-14T22:13:20.000Z",
        "updated_at": "2023-11-14T22:13:20.000Z",
    }
    assert deliveries.shown_delivery(connection, "dlv_none") is None


def waits(connection: sqlite3.Connection) -> dict[str, Any]:
    """Why each delivery waits, by its id."""
    page = deliveries.LISTING.page(connection, PageQuery(50))
    return {each["delivery_id"]: (each["waits"] or {}).get("reason") for each in page.items}


def test_a_pending_delivery_says_that_its_endpoints_circuit_is_open(
    connection: sqlite3.Connection,
) -> None:
    fold(
        connection,
        make_state(circuit="open", open_until=AT + 30_000),
        make_state(tenant_id="bolt"),
        make_delivery("dlv_due"),
        make_delivery("dlv_probed", next_attempt_at=AT + 30_000),
        make_delivery("dlv_later", next_attempt_at=AT + 30_001),
        make_delivery("dlv_test", kind="test"),
        make_delivery("dlv_done", status="delivered"),
        make_delivery("dlv_other", endpoint_id="audit"),
        make_delivery("dlv_theirs", "bolt"),
        make_delivery("dlv_retried", command_id="cmd_1", updated_at=AT + 30_000),
    )
    held = {id_: reason for id_, reason in waits(connection).items() if reason}
    assert held == {"dlv_due": "circuit", "dlv_probed": "circuit"}
    alone = deliveries.shown_delivery(connection, "dlv_due")
    assert alone is not None
    assert alone["waits"]["until"] == "2023-11-14T22:13:50.000Z"
    assert alone["next_attempt_at"] == "2023-11-14T22:13:50.000Z"
    fold(connection, make_state())
    assert set(waits(connection).values()) == {None}


def test_a_delivery_that_waits_for_a_person_or_a_recovery_has_no_next_time(
    connection: sqlite3.Connection,
) -> None:
    fold(
        connection,
        TenantRecord("bolt", "tenant", "", True, "{}"),
        make_state(recovery=make_recovery("cmd_1", since=AT)),
        make_delivery("dlv_lane", lane="all", next_attempt_at=AT),
        make_delivery("dlv_free", next_attempt_at=AT),
        make_delivery("dlv_theirs", "bolt", next_attempt_at=AT),
        make_delivery("dlv_test", "bolt", kind="test", next_attempt_at=AT),
    )
    held = {id_: reason for id_, reason in waits(connection).items() if reason}
    assert held == {"dlv_lane": "recovery", "dlv_theirs": "tenant_disabled"}
    page = deliveries.LISTING.page(connection, PageQuery(50))
    times = {each["delivery_id"]: each["next_attempt_at"] for each in page.items}
    assert {id_ for id_, at in times.items() if at is None} == held.keys()


def test_filters_combine_and_the_newest_come_first(connection: sqlite3.Connection) -> None:
    for number, (tenant_id, endpoint_id, status) in enumerate(
        [
            ("acme", "crm", "dead"),
            ("acme", "crm", "pending"),
            ("acme", "audit", "dead"),
            ("bolt", "crm", "dead"),
        ]
    ):
        fold(
            connection,
            make_delivery(
                f"dlv_{number}",
                tenant_id,
                endpoint_id=endpoint_id,
                status=status,
                created_at=AT + number,
                event_id=f"evt_{number}",
            ),
        )
    assert listed(connection) == ["dlv_3", "dlv_2", "dlv_1", "dlv_0"]
    assert listed(connection, tenant_id="acme", endpoint_id="crm") == ["dlv_1", "dlv_0"]
    assert listed(connection, tenant_id="acme", status="dead") == ["dlv_2", "dlv_0"]
    assert listed(connection, tenant_id="acme", since=AT + 1) == ["dlv_2", "dlv_1"]
    assert listed(connection, event_id="evt_3", tenant_id="acme") == []


@pytest.mark.parametrize(
    ("only", "index"),
    [
        ({}, "newest"),
        ({"status": "dead"}, "by_status"),
        ({"tenant_id": "acme"}, "of_tenant"),
        ({"tenant_id": "acme", "status": "dead"}, "of_tenant_by_status"),
        ({"tenant_id": "acme", "endpoint_id": "crm"}, "of_endpoint"),
        ({"tenant_id": "acme", "endpoint_id": "crm", "status": "dead"}, "of_endpoint_by_status"),
        (
            {"tenant_id": "acme", "endpoint_id": "crm", "status": "dead", "since": AT},
            "of_endpoint_by_status",
        ),
        ({"event_id": "evt_1"}, "of_event"),
        ({"job_id": "job_1"}, "of_job"),
    ],
)
def test_a_list_reads_an_index_of_its_own(
    connection: sqlite3.Connection, only: dict[str, str | int], index: str
) -> None:
    statements = list[str]()
    connection.set_trace_callback(statements.append)
    listed(connection, **only)
    connection.set_trace_callback(None)
    plan = connection.execute(f"EXPLAIN QUERY PLAN {statements[0]}").fetchall()
    assert f"INDEX deliveries_{index} " in f"{plan[0][3]} "


def test_a_selection_is_counted_in_its_own_endpoint_and_its_time_alone(
    connection: sqlite3.Connection,
) -> None:
    fold(
        connection,
        make_delivery("dlv_early", status="parked", created_at=AT - 1),
        make_delivery("dlv_first", status="parked", created_at=AT),
        make_delivery("dlv_last", status="dead", created_at=AT + 9),
        make_delivery("dlv_late", status="dead", created_at=AT + 10),
        make_delivery("dlv_done", status="delivered"),
        make_delivery("dlv_test", status="dead", kind="test"),
        make_delivery("dlv_other", status="dead", endpoint_id="audit"),
        make_delivery("dlv_theirs", "bolt", status="dead"),
    )
    asked = RecoveryRange("acme", "crm", AT, AT + 10, ("parked", "dead"))
    assert deliveries.count(connection, asked).count == 2


def test_an_event_and_its_job_show_their_deliveries(connection: sqlite3.Connection) -> None:
    event = make_event("k1")
    job = event_job(event, status="succeeded")
    told: dict[str, Any] = {
        "kind": "callback",
        "endpoint_id": "callbacks",
        "job_id": job.job_id,
        "event_id": None,
        "url": "https://acme.example/done",
    }
    fold(
        connection,
        event,
        job,
        make_delivery("dlv_event", job_id=job.job_id, attempts=2),
        make_delivery("dlv_told", status="delivered", **told),
        make_delivery("dlv_theirs", "bolt", **told),
        make_delivery("dlv_b", "bolt"),
    )
    story = shown_event(connection, "evt_k1", load())
    assert story is not None
    (to_crm,) = story["deliveries"]
    assert (to_crm["delivery_id"], to_crm["attempt_count"]) == ("dlv_event", 2)
    shown = jobs.shown_job(connection, job.job_id, load())
    assert shown is not None
    (callback,) = shown["deliveries"]
    assert callback["delivery_id"] == "dlv_told"
    assert (callback["status"], callback["endpoint_id"]) == ("delivered", "callbacks")
    assert story["job"]["deliveries"] == [callback]


def test_the_deliveries_of_many_approvals_hide_no_delivery_of_the_job_s_end(
    connection: sqlite3.Connection,
) -> None:
    told: dict[str, Any] = {"kind": "job", "job_id": "job_1", "event_id": None}
    asked = [
        make_delivery(f"dlv_{n:03}", type="approval.requested", created_at=AT + n, **told)
        for n in range(150)
    ]
    end = make_delivery("dlv_end", type="job.succeeded", created_at=AT + 150, **told)
    fold(connection, *asked, end)
    found = deliveries.of_job(connection, "acme", "job_1")
    assert [each["delivery_id"] for each in found[-2:]] == ["dlv_149", "dlv_end"]
    assert len(found) == 100


def test_no_attempt_of_another_tenant_is_shown(connection: sqlite3.Connection) -> None:
    row = make_delivery()
    fold(connection, row, make_attempt(row, 1, tenant_id="bolt"), make_attempt(row, 2))
    assert [each["attempt"] for each in attempts.attempts_of(connection, row)] == [2]


def test_attempts_are_kept_as_long_as_their_topic() -> None:
    topology = load()
    kept = topology.topics["deliveries.attempts"].retention_ms
    assert kept_ms(attempts.TABLE, Settings(), topology) == kept == 14 * 86_400_000
    assert kept_ms(deliveries.TABLE, Settings(), topology) is None


def test_the_whole_cluster_is_counted_and_what_is_due_is_found_by_its_index(
    connection: sqlite3.Connection,
) -> None:
    fold(
        connection,
        make_delivery("dlv_1", next_attempt_at=AT + 5),
        make_delivery("dlv_2", "bolt"),
        make_delivery("dlv_3", status="dead"),
    )
    found = counts(connection)
    assert (found.deliveries, found.oldest_due_at) == ({"pending": 2, "dead": 1}, AT)
    statements = list[str]()
    connection.set_trace_callback(statements.append)
    deliveries.oldest_due(connection)
    connection.set_trace_callback(None)
    (step,) = connection.execute(f"EXPLAIN QUERY PLAN {statements[0]}").fetchall()
    assert "INDEX deliveries_due" in step[3]

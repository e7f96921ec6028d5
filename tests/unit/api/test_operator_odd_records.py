"""Whatever stands on the topics, the read model goes on, and every list of it can be shown."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.callers import Operator
from support.odd_records import BYTES, KEYS, SETTING_KEYS, broken, framed
from support.operator_cluster import make_job

from streams.api.causes.table import shown_cause
from streams.api.endpoints import table as endpoints
from streams.api.jobs import table as jobs
from streams.api.read_model.database import Database, transaction
from streams.api.read_model.projections import Changes, project
from streams.api.rows.paging import PageQuery
from streams.api.tables import LISTINGS, TABLES
from streams.api.timelines.timeline import event_page, job_page
from streams.api.timelines.walk import Asked, Start
from streams.errors import DecodeError
from streams.operator.counts import counts
from streams.runtime.processor import Record
from streams.serde.codec import JOB, TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import TenantRecord

AT = 1_750_000_000_000
OPERATOR = Operator()
ALL_SPANS = Asked(Start(), 1_000)
SCHEMAS = {
    "events": "envelope",
    "jobs": "job",
    "jobs.held": "held",
    "jobs.backlog": "backlog",
    "limits.grants": "limit_grant",
    "jobs.progress": "progress",
    "jobs.types": "job_types",
    "jobs.live": "live",
    "ledger": "ledger_entry",
    "approvals": "approval",
    "schedules": "schedule_row",
    "workflows": "workflow",
    "dlq": "dead_letter",
    "quarantine": "quarantine",
    "rejections": "rejection",
    "audit": "audit",
    "duplicates": "duplicate",
    "tenants": "tenant",
    "deliveries": "delivery",
    "deliveries.attempts": "delivery_attempt",
    "deliveries.endpoints": "endpoint_state",
    "replays": "replay",
    "bulk": "bulk",
}
STEPS = "dispatcher.checkpoints.changelog"
JOINED = st.sampled_from(
    [
        b"rpl\0asked",
        b"rpl\0progress",
        b"blk\0asked\0",
        b"blk\0progress\0",
        b"job_a\x001\0s",
        b"9" * 50 + b"\0a\0b\0c",
        b"job_a\0" + b"9" * 40 + b"\0s",
    ]
)
ALL_KEYS = KEYS | SETTING_KEYS | JOINED


def odd(topic: str) -> st.SearchStrategy[tuple[Any, ...]]:
    if topic == STEPS:
        return st.tuples(
            st.just(topic), ALL_KEYS, BYTES | st.sampled_from([None, b"1", b"[" * 9000])
        )
    values = framed(SCHEMAS[topic]) | framed(SCHEMAS[topic]) | broken(SCHEMAS[topic])
    return st.tuples(st.just(topic), ALL_KEYS, values)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    found = Database(tmp_path_factory.mktemp("model") / "m.sqlite")
    found.open_writer().close()
    yield found
    found.close()


def fold(database: Database, records: list[tuple[Any, ...]]) -> None:
    """Fold records into an empty file, as the follower does."""
    writer, batch = sqlite3.connect(database.path, isolation_level=None), dict[str, Changes]()
    for offset, (topic, key, value) in enumerate(records):
        try:
            project(Record(topic, 0, offset, AT, key, value), batch)
        except DecodeError:
            continue  # a dead letter
    with transaction(writer):
        for table in TABLES:
            writer.execute(f"DELETE FROM {table.name}")
        for changes in batch.values():
            changes.write(writer)
    writer.close()


def everything(connection: sqlite3.Connection) -> list[Any]:
    """All that the lists show."""
    first = PageQuery(50)
    ids = connection.execute("SELECT job_id FROM jobs").fetchall()
    events = connection.execute("SELECT event_id FROM events").fetchall()
    causes = connection.execute("SELECT id FROM causes").fetchall()
    return [
        *(listing.shown(connection, first, OPERATOR).items for listing in LISTINGS),
        *(jobs.shown_job(connection, job_id, OPERATOR.topology) for (job_id,) in ids),
        *(job_page(connection, job_id, ALL_SPANS, OPERATOR.topology) for (job_id,) in ids),
        *(event_page(connection, id_, ALL_SPANS, OPERATOR.topology) for (id_,) in events),
        *(shown_cause(connection, cause_id) for (cause_id,) in causes),
    ]


def test_every_topic_is_tried() -> None:
    assert {table.topic for table in TABLES} == {*SCHEMAS, STEPS}


@pytest.mark.long
@settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(records=st.lists(st.one_of(*(odd(table.topic) for table in TABLES)), max_size=8))
def test_what_is_a_row_can_be_shown(database: Database, records: list[tuple[Any, ...]]) -> None:
    known = JOB.encode(make_job("job_known"))
    fold(database, [*records, ("jobs", b"job_known", known)])
    orjson.dumps(database.read(everything))
    database.read(counts)
    shown = database.read(lambda db: jobs.shown_job(db, "job_known", OPERATOR.topology))
    assert shown is not None


@pytest.mark.parametrize("secrets", [(), (b"one", b"two")])
def test_an_endpoint_without_sealed_headers_does_not_fail_the_list(
    database: Database, secrets: tuple[bytes, ...]
) -> None:
    body = '{"url": "https://acme.example/"}'
    record = TenantRecord("acme", "endpoint", "crm", False, body, secrets)
    fold(database, [("tenants", tenant_key("acme", "endpoint", "crm"), TENANT.encode(record))])
    query = PageQuery(10)
    page = database.read(lambda db: endpoints.LISTING.shown(db, query, OPERATOR))
    (shown,) = page.items
    assert shown["headers"] is None

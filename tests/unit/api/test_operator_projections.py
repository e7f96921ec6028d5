"""Records become rows, the last of a batch alone; what cannot be read changes nothing."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from support.audited import CALL
from support.operator_cluster import (
    make_entry,
    make_event,
    make_job,
    make_letter,
    make_quarantined,
)
from support.outgoing_rows import make_attempt, make_delivery, make_state
from support.step_results import framed

from streams.api.read_model.database import Database
from streams.api.read_model.projections import Changes, project
from streams.api.tables import TABLES
from streams.audit.entries import of_call
from streams.dispatcher.schedule import created
from streams.errors import DecodeError
from streams.runtime.processor import Record
from streams.schedules.definition import definition
from streams.serde.bulk_records import BulkPaused, BulkRecord
from streams.serde.codec import (
    APPROVAL,
    AUDIT_ENTRY,
    BACKLOG,
    BULK,
    DEAD_LETTER,
    DELIVERY,
    DELIVERY_ATTEMPT,
    DUPLICATE,
    ENDPOINT_STATE,
    ENVELOPE,
    HELD,
    JOB,
    JOB_TYPES,
    LEDGER_ENTRY,
    LIMIT_GRANT,
    LIVE,
    PROGRESS,
    QUARANTINED,
    REJECTION,
    REPLAY,
    SCHEDULE_ROW,
    TENANT,
    WORKFLOW,
)
from streams.serde.keys import (
    approval_key,
    bulk_key,
    checkpoint_key,
    held_key,
    join,
    ledger_key,
    quarantine_key,
    replay_key,
    schedule_key,
    tenant_key,
    workflow_key,
)
from streams.serde.records import (
    DONE,
    AnnouncedType,
    Approval,
    Backlog,
    BacklogDepth,
    Duplicate,
    Held,
    JobTypes,
    LimitGrant,
    LiveOutput,
    PayloadRef,
    Progress,
    Rejection,
    Sealed,
    TenantRecord,
    Workflow,
)
from streams.serde.replay_records import ReplayPaused, ReplayRecord

JOB_A = make_job()
ENTRY = make_entry(JOB_A, "email:send/reply")
APPROVAL_A = Approval(
    "apr_a",
    "acme",
    "job_a",
    JOB_A.type,
    JOB_A.scope,
    "refund",
    "pending",
    b"digest",
    Sealed("", b""),
    (),
    None,
    None,
    "any",
    1,
    "reject",
    "handler",
    (),
    None,
    "",
    1,
    None,
    None,
)
SCHEDULE_A = created("acme", "s", definition("report", "{}", cron="0 9 * * *"), None, "ops", 1)
KEPT = make_quarantined(b"<xml/>", PayloadRef(0, (0,), 6, "kek"))
DEPTHS = Backlog(0, (BacklogDepth("tenant", "acme", 3),))
HELD_JOBS = Held(0, "default", "draft_reply", None, "no_worker", 1, 3, "start one")
TYPES = JobTypes("support", "1", (AnnouncedType("report", 5, (10.0,), 300.0, None, "{}", None),))
SAID = LiveOutput("job_a", "acme", "run_1", 1, 1, "token", "", 0, "Hi")
VALUES: dict[str, tuple[bytes, bytes]] = {
    "events": (b"acme", ENVELOPE.encode(make_event())),
    "jobs": (b"job_a", JOB.encode(JOB_A)),
    "jobs.held": (held_key(0, "default", "draft_reply", None), HELD.encode(HELD_JOBS)),
    "jobs.backlog": (b"0", BACKLOG.encode(DEPTHS)),
    "limits.grants": (b"all", LIMIT_GRANT.encode(LimitGrant("all", "", 1, 1, 3, 1, 2))),
    "jobs.progress": (b"job_a", PROGRESS.encode(Progress("job_a", "acme", "run_1", 1, "50"))),
    "jobs.types": (b"support", JOB_TYPES.encode(TYPES)),
    "jobs.live": (b"job_a", LIVE.encode(SAID)),
    "approvals": (
        approval_key("acme", JOB_A.scope, APPROVAL_A.approval_id),
        APPROVAL.encode(APPROVAL_A),
    ),
    "schedules": (schedule_key("acme", "s"), SCHEDULE_ROW.encode(SCHEDULE_A)),
    "workflows": (
        workflow_key("acme", "w"),
        WORKFLOW.encode(
            Workflow("w", "acme", "job_a", "draft_reply", "running", {"running": 1}, 1)
        ),
    ),
    "ledger": (ledger_key("acme", JOB_A.scope, ENTRY.action), LEDGER_ENTRY.encode(ENTRY)),
    "dlq": (b"job_a", DEAD_LETTER.encode(make_letter(JOB_A))),
    "quarantine": (
        quarantine_key("acme", "shop", KEPT.payload_hash),
        QUARANTINED.encode(KEPT),
    ),
    "audit": (
        b"acme",
        AUDIT_ENTRY.encode(of_call(CALL, "job.cancel", "job_a", DONE, 1, tenant_id="acme")),
    ),
    "rejections": (
        b"rej_1",
        REJECTION.encode(Rejection("rej_1", None, None, "unauthorized", 3, 1, 2, cause=None)),
    ),
    # A fingerprint is no text: it may hold any byte, that between the parts of other keys too.
    "duplicates": (b"\xff\0" * 8, DUPLICATE.encode(Duplicate("acme", 2, 1, 2, None))),
    "tenants": (
        tenant_key("acme", "tenant", ""),
        TENANT.encode(TenantRecord("acme", "tenant", "", False, "{}")),
    ),
    "deliveries": (b"dlv_a", DELIVERY.encode(make_delivery())),
    "deliveries.attempts": (b"dlv_a", DELIVERY_ATTEMPT.encode(make_attempt(make_delivery()))),
    "deliveries.endpoints": (join("acme", "crm"), ENDPOINT_STATE.encode(make_state())),
    "replays": (
        replay_key("rpl_1", "paused"),
        REPLAY.encode(ReplayRecord("rpl_1", 1, "operator", ReplayPaused(True))),
    ),
    "bulk": (
        bulk_key("bulk_1", "paused"),
        BULK.encode(BulkRecord("bulk_1", 1, "operator", BulkPaused(True))),
    ),
    "dispatcher.checkpoints.changelog": (checkpoint_key("job_a", 1, "draft"), framed('"text"')),
}


ODD_NUMBERS = (
    b"9" * 30,
    b"9223372036854775808",
    b"-1",
    b"1" * 1_000_000,
    b"1_0",
    b" 1",
    b"1e3",
    "\u0661".encode(),
    b"NaN",
    b"",
)
ODD_BODIES = [
    (kind, body)
    for kind in ("tenant", "source", "endpoint", "erasure")
    for body in ("", "[" * 100_000, "[]", "null", "NaN")
]


def setting(kind: str, body: str) -> bytes:
    return TENANT.encode(TenantRecord("acme", kind, "", False, body))  # type: ignore[arg-type]


def record(topic: str, key: bytes | None, value: bytes | None) -> Record:
    return Record(topic, 0, 0, 1, key, value)


@pytest.fixture
def connection(tmp_path: Path) -> Any:
    opened = Database(tmp_path / "m.sqlite").open_writer()
    yield opened
    opened.close()


def write(connection: sqlite3.Connection, batch: dict[str, Changes]) -> None:
    for changes in batch.values():
        changes.write(connection)


def test_every_followed_topic_has_a_sample_here() -> None:
    assert sorted(VALUES) == sorted(table.topic for table in TABLES)


@pytest.mark.parametrize(
    "topic",
    sorted(
        VALUES.keys() - {"events", "deliveries.attempts", "jobs.live", "limits.grants", "audit"}
    ),
)
def test_a_record_is_a_row_until_its_tombstone(connection: sqlite3.Connection, topic: str) -> None:
    key, value = VALUES[topic]
    (table,) = [table.name for table in TABLES if table.topic == topic]
    for content, rows in ((value, 1), (value, 1), (None, 0)):
        batch: dict[str, Changes] = {}
        project(record(topic, key, content), batch)
        write(connection, batch)
        (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert count == rows


def test_in_one_batch_the_last_change_of_a_row_wins(connection: sqlite3.Connection) -> None:
    batch: dict[str, Changes] = {}
    running = JOB.encode(make_job(status="running"))
    for job_id, value in (
        (b"job_a", JOB.encode(JOB_A)),
        (b"job_a", running),
        (b"job_b", JOB.encode(make_job("job_b"))),
        (b"job_b", None),
    ):
        project(record("jobs", job_id, value), batch)
    write(connection, batch)
    assert connection.execute("SELECT job_id, status FROM jobs").fetchall() == [
        ("job_a", "running")
    ]


@pytest.mark.parametrize(
    ("topic", "key", "value"),
    [
        ("jobs", b"job_a", b""),
        ("jobs", b"job_a", b"\0\0\0\0\1rest"),
        ("jobs", b"\xff", None),
        ("ledger", b"one part", None),
        ("jobs.held", b"one\0default\0t\0", None),
        ("dispatcher.checkpoints.changelog", b"job_a", framed("1")),
        ("dispatcher.checkpoints.changelog", checkpoint_key("job_a", 1, "s"), framed("{")),
        ("dispatcher.checkpoints.changelog", checkpoint_key("job_a", 1, "s"), b"1"),
        ("dispatcher.checkpoints.changelog", b"job_a\0one\0s", framed("1")),
        *(
            ("dispatcher.checkpoints.changelog", b"job_a\0" + number + b"\0s", content)
            for number in ODD_NUMBERS
            for content in (framed("1"), None)
        ),
        (
            "dispatcher.checkpoints.changelog",
            checkpoint_key("job_a", 1, "s"),
            framed("[" * 99_999),
        ),
        ("dispatcher.checkpoints.changelog", checkpoint_key("job_a", 1, "s"), framed('"\\ud800"')),
        ("dispatcher.checkpoints.changelog", checkpoint_key("job_a", 1, "s"), framed("NaN")),
        ("dispatcher.checkpoints.changelog", None, framed("1")),
        ("jobs.held", b"9" * 30 + b"\0default\0t\0", None),
        ("jobs", b"job_\xed\xa0\x80", None),
        *(
            ("tenants", tenant_key("acme", kind, ""), setting(kind, body))
            for kind, body in ODD_BODIES
        ),
        ("tenants", b"acme", None),
        ("events", b"acme", None),
        ("deliveries.attempts", b"dlv_a", None),
        ("events", b"acme", b"no envelope"),
    ],
)
def test_what_cannot_be_read_leaves_the_batch_as_it_was(
    topic: str, key: bytes, value: bytes | None
) -> None:
    batch: dict[str, Changes] = {}
    with pytest.raises(DecodeError):
        project(record(topic, key, value), batch)
    assert not any(changes.rows for changes in batch.values())

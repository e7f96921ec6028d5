"""The read model on a real broker: what it shows, and that nothing of it is ever lost."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.conditions import eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import (
    Cluster,
    RunningOperator,
    make_cluster,
    make_entry,
    make_event,
    make_job,
    make_letter,
    running,
)
from support.step_results import framed

from streams.broker.embedded import EmbeddedKafka
from streams.cli.api_client import CallFailed
from streams.serde.keys import checkpoint_key
from streams.serde.records import EventInfo, PayloadRef, Progress

pytestmark = pytest.mark.broker

CHECKPOINTS = "dispatcher.checkpoints.changelog"


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


def read_model(cluster: Cluster) -> Path:
    return cluster.settings.data_dir / "operator" / "0" / "read_model.sqlite"


def test_a_job_shows_all_that_is_known_of_it(cluster: Cluster) -> None:
    event = EventInfo(
        "evt_1", "zendesk", "ticket.created", None, None, 1, "application/json", None, None, "k", {}
    )
    job = make_job(
        status="running",
        event=event,
        payload_ref=PayloadRef(2, (7, 8), 1234, "kek_1"),
        attempts=1,
        run_id="run_1",
        scheduled_at=1_700_000_000_123,
        callback_url="https://acme.example/",
        result='{"draft":"Hi"}',
    )
    home = cluster.home(job.tenant_id)
    step = (CHECKPOINTS, home, checkpoint_key(job.job_id, 1, "draft"), framed('{"text":"Hi"}'))
    old_step = (CHECKPOINTS, home, checkpoint_key(job.job_id, 0, "draft"), framed('"old"'))
    said = Progress(job.job_id, job.tenant_id, "run_1", int(time.time() * 1000), '{"pct":50}')
    cluster.write(make_job(), said, step, old_step, make_entry(job, "email:send/reply"))
    with running(cluster.settings, cluster.topology) as operator:
        cluster.write(job)
        shown = operator.shows("/v1/jobs/job_a", status="running")
    assert shown == {
        "job_id": "job_a",
        "tenant_id": "acme",
        "type": "draft_reply",
        "status": "running",
        "worker_id": None,
        "began_at": None,
        "priority": "webhook",
        "attempts": 1,
        "incarnation": 1,
        "event_id": "evt_1",
        "event_ids": ["evt_1"],
        "event_count": 1,
        "superseded_by": None,
        "queued_behind": None,
        "parent": None,
        "depth": 0,
        "continuations": 0,
        "expires_at": None,
        "run_id": "run_1",
        "workflow_id": None,
        "timeout_seconds": 300.0,
        "callback_url": "https://acme.example/",
        "payload_ref": {"partition": 2, "offsets": [7, 8], "size": 1234, "key_id": "kek_1"},
        "scheduled_at": "2023-11-14T22:13:20.123Z",
        "next_retry_at": None,
        "last_error": None,
        "result": {"draft": "Hi"},
        "effects": [
            {
                "action": "email:send/reply",
                "status": "done",
                "idempotency_key": "idk_1",
                "tool": "email:send",
                "key": "reply",
                "once_per": "job",
                "job_id": "job_a",
                "began_at": "2023-11-14T22:13:21.000Z",
                "run_id": "run_1",
                "arguments_sha256": "01" * 32,
                "claims": 1,
                "result": {"sent": True},
                "error": None,
                "settle_after": None,
                "repeatable_until": None,
                "settled_by": None,
                "note": None,
                "kept_until": None,
                "updated_at": "2023-11-14T22:13:22.000Z",
            }
        ],
        "code": None,
        "code_at_start": None,
        "diverged": None,
        "steps": [
            {
                "name": "draft",
                "kind": "step",
                "value": {"text": "Hi"},
                "error": None,
                "changed_args": False,
                "code": None,
            }
        ],
        "progress": {"pct": 50},
        "heartbeat": None,
        "log": [],
        "duplicates": None,
        "pool": "default",
        "asked_pool": None,
        "held": None,
        "lost": 0,
        "input": {},
        "waits": [],
        "draft": False,
        "resumes": 0,
        "schedule_id": None,
        "scheduled_for": None,
        "why": None,
        "deliveries": [],
        "end_reason": None,
        "history": [],
        "cancel_reason": None,
        "replayed_as": None,
        "cancel_requested": False,
        "replay_of": None,
        "replay_note": None,
        "replay_id": None,
        "submitted_by": None,
        "principal": "source:zendesk",
        "trace_id": "a" * 32,
        "created_at": "2023-11-14T22:13:20.000Z",
        "updated_at": "2023-11-14T22:13:20.500Z",
    }


def test_a_purged_job_leaves_and_an_aborted_one_never_comes(cluster: Cluster) -> None:
    cluster.write(make_job("job_aborted"), commit=False)
    cluster.write(make_job("job_kept"), make_job("job_purged"))
    with running(cluster.settings, cluster.topology) as operator:
        cluster.write(("jobs", cluster.home("acme"), b"job_purged", None))
        eventually(lambda: len(operator.get("/v1/jobs")["jobs"]) == 1, what="job_purged is gone")
        assert [each["job_id"] for each in operator.get("/v1/jobs")["jobs"]] == ["job_kept"]


def test_a_restart_reads_on_from_where_it_stood(cluster: Cluster) -> None:
    cluster.write(make_job("job_before", attempts=1))
    with running(cluster.settings, cluster.topology):
        pass
    # A mark that only a fold from the start would remove.
    with sqlite3.connect(read_model(cluster)) as connection:
        connection.execute("UPDATE jobs SET tenant_id = 'marked'")
    connection.close()
    cluster.write(make_job("job_meanwhile"))
    with running(cluster.settings, cluster.topology) as operator:
        marked = operator.get("/v1/jobs", tenant_id="marked")["jobs"]
        assert [each["job_id"] for each in marked] == ["job_before"]
        assert operator.get("/v1/jobs/job_meanwhile")["status"] == "pending"


def happened(operator: RunningOperator) -> dict[str, int]:
    """What the last hour had, in all."""
    series = operator.get("/v1/overview/minutes")["minutes"]["series"]
    return {name: sum(values) for name, values in series.items() if any(values)}


def test_the_last_hour_counts_each_record_once_over_restarts_and_a_rebuild(
    cluster: Cluster,
) -> None:
    now = int(time.time() * 1000)
    first = make_job("job_first", created_at=now, updated_at=now)
    cluster.write(make_event("k1"), make_event("k2"), first, replace(first, status="dead"))
    cluster.write(make_letter(first))
    expected = {"events": 2, "jobs": 1, "failed": 1, "dead_letters": 1}
    with running(cluster.settings, cluster.topology) as operator:
        assert happened(operator) == expected
    cluster.write(make_event("k3"), make_job("job_second", created_at=now, updated_at=now))
    expected |= {"events": 3, "jobs": 2}
    for _ in range(2):
        with running(cluster.settings, cluster.topology) as operator:
            assert happened(operator) == expected
    read_model(cluster).unlink()
    with running(cluster.settings, cluster.topology) as operator:
        assert happened(operator) == expected
        assert operator.get("/v1/overview")["behind_seconds"] < 60


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a file that is no database": lambda path: path.write_bytes(b"not a database" * 999),
    "pages overwritten": lambda path: path.write_bytes(
        path.read_bytes()[:4096] + b"\xa5" * (path.stat().st_size - 4096)
    ),
    "another schema": lambda path: _execute(path, "PRAGMA user_version = 99"),
    "a table dropped": lambda path: _execute(path, "DROP TABLE effects"),
    "an offset past the end": lambda path: _execute(
        path, "UPDATE positions SET next_offset = 1000000"
    ),
    "a topic made anew": lambda path: _execute(path, "UPDATE positions SET topic_id = 'other'"),
    "away for too long": lambda path: _execute(path, "UPDATE freshness SET at = at - 50000000"),
    "deleted": lambda path: path.unlink(),
}


def _execute(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    # Were the model not rebuilt, this row would tell.
    connection.execute("UPDATE jobs SET tenant_id = 'marked'")
    connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_read_model_in_doubt_is_rebuilt_from_the_topics(cluster: Cluster, damage: str) -> None:
    cluster.write(*(make_job(f"job_{n}") for n in range(30)))
    with running(cluster.settings, cluster.topology) as operator:
        before = operator.get("/v1/jobs", tenant_id="acme")
    DAMAGES[damage](read_model(cluster))
    with running(cluster.settings, cluster.topology) as operator:
        assert operator.get("/v1/jobs", tenant_id="acme") == before
        assert len(before["jobs"]) == 30


def test_a_record_that_cannot_be_decoded_is_a_dead_letter_and_the_model_moves_on(
    cluster: Cluster,
) -> None:
    home = cluster.home("acme")
    cluster.write(
        make_job("job_1"),
        ("jobs", home, b"job_1", b"\0garbage"),
        make_job("job_2"),
        (CHECKPOINTS, home, checkpoint_key("job_1", 1, "draft"), framed("not json")),
    )
    with running(cluster.settings, cluster.topology) as operator:
        eventually(lambda: len(operator.get("/v1/dlq")["dead_letters"]) == 2, what="both listed")
        letter = operator.get(f"/v1/dlq/operator:jobs:{home}:1")
        assert letter["kind"] == "record"
        assert letter["stage"] == "operator"
        assert letter["reason"] == "undecodable"
        assert (letter["topic"], letter["partition"], letter["offset"]) == ("jobs", home, 1)
        assert letter["value_base64"] == "AGdhcmJhZ2U="
        assert operator.get("/v1/jobs/job_1")["status"] == "pending"
        assert operator.get("/v1/jobs/job_2")["status"] == "pending"
        assert operator.get("/v1/dlq", tenant_id="acme")["dead_letters"] == []
        with pytest.raises(CallFailed, match="read model left the record out"):
            operator.send("POST", f"/v1/dlq/operator:jobs:{home}:1/replay", {"incident_note": "x"})


def test_dead_letters_past_their_retention_leave(cluster: Cluster) -> None:
    kept = cluster.topology.topics["dlq"].retention_ms
    assert kept is not None
    fresh, stale = make_job("job_fresh", status="dead"), make_job("job_stale", status="dead")
    cluster.write(make_letter(stale, at=make_letter(stale).at - kept), make_letter(fresh))
    with running(cluster.settings, cluster.topology) as operator:
        eventually(lambda: len(operator.get("/v1/dlq")["dead_letters"]) == 1, what="job_stale left")
        assert operator.get("/v1/dlq")["dead_letters"][0]["id"] == "job_fresh"


def test_while_the_broker_is_away_reads_answer_and_writes_are_refused(tmp_path: Path) -> None:
    with EmbeddedKafka(tmp_path / "kafka") as broker:
        cluster = make_cluster(broker.bootstrap, broker.client_settings, tmp_path)
        with running(cluster.settings, cluster.topology) as operator:
            operator.send("PUT", "/v1/tenants/acme")
            cluster.write(make_job("job_before"))
            operator.shows("/v1/jobs/job_before", status="pending")
            broker.kill()
            with pytest.raises(CallFailed, match="not acknowledged by Kafka"):
                operator.send("POST", "/v1/tenants/acme/jobs", {"type": "t"})
            assert operator.get("/v1/jobs/job_before")["status"] == "pending"
            broker.start()
            cluster.write(make_job("job_after"))
            operator.shows("/v1/jobs/job_after", status="pending")
            assert operator.send("PUT", "/v1/tenants/globex")["disabled"] is False


def test_without_a_broker_it_lives_is_not_ready_and_says_so(cluster: Cluster) -> None:
    alone = cluster.settings.model_copy(update={"bootstrap": "127.0.0.1:9"})
    with running(alone, cluster.topology, ready=False) as operator:
        with pytest.raises(CallFailed, match="has not read its topics to their end"):
            operator.get("/v1/jobs")
        assert operator.plain("/healthz") == (200, "ok\n")
        assert operator.plain("/readyz") == (503, "not ready\n")
        assert "tidegate_operator_ready 0.0" in operator.plain("/metrics")[1]

"""The operator's calls on a real broker, with a stand-in that answers as the dispatcher does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from support.conditions import PATIENCE_SECONDS, eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import (
    FOLLOWED,
    TOKEN,
    Cluster,
    RunningOperator,
    make_cluster,
    make_job,
    make_letter,
    obeying,
    refusal,
    running,
)

from streams.api import operator_state as app_state
from streams.api.read_model.fold_session import FoldSession
from streams.cli.api_client import CallFailed
from streams.serde import ids
from streams.serde.codec import COMMAND, TENANT
from streams.serde.records import Cancel, Command, Job, Replay, Submit

pytestmark = pytest.mark.broker

JOBS = "/v1/tenants/acme/jobs"


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


@pytest.fixture
def operator(cluster: Cluster) -> Iterator[RunningOperator]:
    with running(cluster.settings, cluster.topology) as found:
        found.send("PUT", "/v1/tenants/acme", {"display_name": "Acme"})
        yield found


@contextmanager
def dispatching(cluster: Cluster) -> Iterator[dict[str, Job]]:
    """Take commands and write the jobs they make, each in one transaction."""
    jobs: dict[str, Job] = {}

    def obey(command: Command, message: Message) -> list[Any]:
        known, body = jobs.get(command.job_id), command.body
        if isinstance(body, Submit) and known and known.request_hash != body.request_hash:
            return [refusal(message, "key_reused", "submitted with another body")]
        if isinstance(body, Replay) and body.replay_of == "job_done":
            return [refusal(message, "not_replayable", "job job_done is succeeded")]
        _obey(command, jobs)
        return [jobs[command.job_id]]

    with obeying(cluster, obey):
        yield jobs


def _obey(command: Command, jobs: dict[str, Job]) -> None:
    job_id, body = command.job_id, command.body
    match body:
        case Submit():
            new = make_job(
                job_id,
                command.tenant_id,
                type=body.type,
                input=body.input,
                scheduled_at=body.run_at,
                request_hash=body.request_hash,
                traceparent=body.traceparent,
                submitted_by=body.submitted_by,
                workflow_id=body.workflow_id,
                event_time=command.at,
            )
            jobs.setdefault(job_id, new)
        case Replay():
            jobs.setdefault(
                job_id,
                make_job(
                    job_id,
                    command.tenant_id,
                    replay_of=body.replay_of,
                    replay_note=body.note,
                    scope=f"{job_id}.1" if body.fresh_scope else f"{body.replay_of}.1",
                    status="dead",
                ),
            )
        case Cancel():
            assert body.incarnation == jobs[job_id].incarnation
            jobs[job_id] = replace(
                jobs[job_id], status="cancelled", cancel_requested=True, last_error=body.reason
            )


def test_a_submission_answers_the_job_that_the_dispatcher_made(
    cluster: Cluster, operator: RunningOperator
) -> None:
    body = {"type": "draft_reply", "input": {"n": 1}, "workflow_id": "w1", "priority": "batch"}
    with dispatching(cluster) as jobs:
        job = operator.send("POST", JOBS, body)
    assert jobs[job["job_id"]].input == '{"n":1}'
    assert (job["tenant_id"], job["type"], job["status"]) == ("acme", "draft_reply", "pending")
    assert (job["workflow_id"], job["submitted_by"]) == ("w1", "operator")
    assert "names a job type 'draft_reply'" in job.pop("warning")
    assert operator.get(f"/v1/jobs/{job['job_id']}") == job


def test_one_key_is_one_job_and_another_body_under_it_is_a_conflict(
    cluster: Cluster, operator: RunningOperator
) -> None:
    body = {"type": "draft_reply", "input": {"a": 1, "b": 2}}
    with dispatching(cluster) as jobs, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: operator.send("POST", JOBS, body, "k1"), range(16)))
        assert {each["job_id"] for each in answers} == {ids.submitted_job_id("acme", "k1")}
        reordered = {"input": {"b": 2, "a": 1}, "type": "draft_reply"}
        assert operator.send("POST", JOBS, reordered, "k1")["job_id"] in jobs
        with pytest.raises(CallFailed, match="submitted with another body"):
            operator.send("POST", JOBS, {"type": "draft_reply", "input": {"a": 2}}, "k1")
        by_dedup = operator.send("POST", JOBS, body | {"dedup_key": "k2"})
        assert by_dedup["job_id"] == ids.submitted_job_id("acme", "k2")
        free = [operator.send("POST", JOBS, body)["job_id"] for _ in range(2)]
    assert len(jobs) == 4
    assert free[0] != free[1]


def test_a_used_key_is_a_conflict_however_late_the_read_model_is(
    cluster: Cluster, operator: RunningOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    following, step = threading.Event(), FoldSession.step
    stalled = threading.Event()

    def stalling(session: FoldSession) -> None:
        if following.is_set():
            step(session)
        else:
            stalled.set()
            following.wait(0.01)

    monkeypatch.setattr(FoldSession, "step", stalling)
    assert stalled.wait(PATIENCE_SECONDS)
    # Another operator's submission, of which this one has read nothing.
    cluster.write(make_job(ids.submitted_job_id("acme", "k"), request_hash=b"\2" * 32))
    monkeypatch.setattr(app_state, "SHOWN_WITHIN_SECONDS", 1.0)
    headers = {"Authorization": f"Bearer {TOKEN}", "Idempotency-Key": "k"}
    status, text = operator.plain(JOBS, "POST", headers, b'{"type": "t"}')
    assert (status, json.loads(text)["type"]) == (503, "urn:tidegate:problem:not-ready")
    monkeypatch.setattr(app_state, "SHOWN_WITHIN_SECONDS", 30.0)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(operator.plain, JOBS, "POST", headers, b'{"type": "t"}')
        following.set()
        status, text = waiting.result()
    assert (status, json.loads(text)["type"]) == (409, "urn:tidegate:problem:key-reused")
    assert cluster.read("jobs.commands") == []


def test_two_bodies_racing_for_one_key_leave_one_job_and_one_conflict(
    cluster: Cluster, operator: RunningOperator
) -> None:
    def submit(n: int) -> str:
        try:
            return str(operator.send("POST", JOBS, {"type": f"t{n}"}, "raced")["type"])
        except CallFailed as refused:
            return str(refused)

    with ThreadPoolExecutor(2) as pool:
        raced = [pool.submit(submit, n) for n in range(2)]
        with dispatching(cluster) as jobs:
            results = [each.result() for each in raced]
    (job,) = jobs.values()
    assert sorted(job.type == each for each in results) == [False, True]
    assert any("submitted with another body" in each for each in results)


def test_a_key_of_another_tenant_is_another_job(
    cluster: Cluster, operator: RunningOperator
) -> None:
    operator.send("PUT", "/v1/tenants/globex")
    with dispatching(cluster):
        mine = operator.send("POST", JOBS, {"type": "t"}, "k")
        theirs = operator.send("POST", "/v1/tenants/globex/jobs", {"type": "other"}, "k")
    assert mine["job_id"] != theirs["job_id"]
    listed = operator.get("/v1/jobs", tenant_id="acme")["jobs"]
    assert [each["job_id"] for each in listed] == [mine["job_id"]]


def test_a_tenant_s_commands_and_settings_lie_in_its_partition(
    cluster: Cluster, operator: RunningOperator
) -> None:
    tenants = [f"tenant-{n}" for n in range(8)]
    with dispatching(cluster):
        for tenant in tenants:
            operator.send("PUT", f"/v1/tenants/{tenant}")
            operator.send("POST", f"/v1/tenants/{tenant}/jobs", {"type": "t"})
    homes = {tenant: cluster.home(tenant) for tenant in tenants}
    sent = {(m.key() or b"").decode(): m.partition() for m in cluster.read("jobs.commands")}
    assert len(set(homes.values())) > 1
    assert sent == homes
    kept = {TENANT.decode(m.value()).tenant_id: m.partition() for m in cluster.read("tenants")}
    assert kept == homes | {"acme": cluster.home("acme")}


def test_a_submission_that_no_dispatcher_took_yet_names_its_job_and_its_command(
    cluster: Cluster, operator: RunningOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_state, "SHOWN_WITHIN_SECONDS", 1.0)
    job = operator.send("POST", JOBS, {"type": "t", "delay_seconds": 60}, "k")
    assert (job["type"], job["tenant_id"], job["answered"]) == ("t", "acme", False)
    assert job["job_id"] == ids.submitted_job_id("acme", "k")
    (message,) = cluster.read("jobs.commands")
    command = COMMAND.decode(message.value())
    assert (command.tenant_id, command.job_id) == ("acme", job["job_id"])
    assert command.command_id == job["command_id"]
    assert isinstance(command.body, Submit)
    assert (command.body.run_at, command.body.delay_ms) == (None, 60_000)
    assert len(command.body.request_hash) == 32
    with pytest.raises(CallFailed, match="is not shown yet"):
        operator.get(f"/v1/jobs/{job['job_id']}")
    other = operator.send("POST", JOBS, {"type": "other"}, "k")
    monkeypatch.setattr(app_state, "SHOWN_WITHIN_SECONDS", 30.0)
    with dispatching(cluster):
        again = operator.send("POST", JOBS, {"type": "t", "delay_seconds": 60}, "k")
        assert again["job_id"] == job["job_id"]
        (entry,) = eventually(
            lambda: operator.get("/v1/audit", command=other["command_id"])["audit"],
            what="the other body is refused",
        )
    assert (entry["outcome"], entry["reason"]) == ("refused", "key_reused")


def test_a_caller_s_trace_goes_on_in_the_job(cluster: Cluster, operator: RunningOperator) -> None:
    trace = "1" * 32
    headers = {"Authorization": f"Bearer {TOKEN}", "traceparent": f"00-{trace}-{'2' * 16}-01"}
    with dispatching(cluster):
        status, text = operator.plain(JOBS, "POST", headers, b'{"type": "t"}')
    assert (status, json.loads(text)["trace_id"]) == (202, trace)


def _later(**ahead: int) -> str:
    return (datetime.now(UTC) + timedelta(**ahead)).isoformat()


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no type": ({}, ["type"]),
    "all at once": (
        {"type": "", "priorty": "x", "timeout_seconds": 0},
        ["type", "timeout_seconds", "priorty"],
    ),
    "unknown priority": ({"type": "t", "priority": "urgent"}, ["priority"]),
    "two times": ({"type": "t", "delay_seconds": 1, "run_at": _later(days=1)}, ["body"]),
    "no offset": ({"type": "t", "run_at": "2026-11-21T09:00:00"}, ["run_at"]),
    "beyond the payloads": ({"type": "t", "run_at": _later(days=32)}, ["run_at"]),
    "delayed beyond them": ({"type": "t", "delay_seconds": 32 * 86_400}, ["delay_seconds"]),
    "no link": ({"type": "t", "callback_url": "ftp://x/"}, ["callback_url"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_submission_is_refused_with_every_field_named(
    operator: RunningOperator, case: str
) -> None:
    body, fields = REFUSED[case]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    status, text = operator.plain(JOBS, "POST", headers, json.dumps(body).encode())
    answer = json.loads(text)
    assert (status, answer["type"]) == (422, "urn:tidegate:problem:invalid-request")
    assert [each["field"] for each in answer["errors"]] == fields


def test_unknown_and_disabled_tenants_get_no_job(operator: RunningOperator) -> None:
    with pytest.raises(CallFailed, match="no tenant 'nobody'"):
        operator.send("POST", "/v1/tenants/nobody/jobs", {"type": "t"})
    operator.send("DELETE", "/v1/tenants/acme")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    status, text = operator.plain(JOBS, "POST", headers, b'{"type":"t"}')
    assert (status, json.loads(text)["type"]) == (403, "urn:tidegate:problem:tenant-disabled")
    assert operator.get("/v1/tenants/acme")["disabled"] is True
    assert operator.send("PUT", "/v1/tenants/acme")["disabled"] is False


def test_cancel_ends_a_job_once(cluster: Cluster, operator: RunningOperator) -> None:
    with dispatching(cluster):
        job_id = operator.send("POST", JOBS, {"type": "t"})["job_id"]
        cancelled = operator.send("POST", f"/v1/jobs/{job_id}/cancel", {"reason": "no more"})
        assert (cancelled["status"], cancelled["cancel_requested"]) == ("cancelled", True)
        with pytest.raises(CallFailed, match="already ended: cancelled"):
            operator.send("POST", f"/v1/jobs/{job_id}/cancel")
        with pytest.raises(CallFailed, match="no job 'job_none'"):
            operator.send("POST", "/v1/jobs/job_none/cancel")


def test_a_dead_job_is_replayed_as_a_new_one_with_a_note(
    cluster: Cluster, operator: RunningOperator
) -> None:
    dead = make_job("job_dead", status="dead", attempts=5, last_error="TimeoutError: slow")
    cluster.write(dead, make_letter(dead))
    operator.shows("/v1/dlq/job_dead", reason="attempts_exhausted")
    operator.shows("/v1/jobs/job_dead", status="dead")
    path, note = "/v1/dlq/job_dead/replay", {"incident_note": "the vendor is back"}
    with dispatching(cluster) as jobs:
        first = operator.send("POST", path, note)
        again = note | {"again": True}
        second = operator.send("POST", path, again)
        keyed = [operator.send("POST", path, again, "once")["job_id"] for _ in range(3)]
        with pytest.raises(CallFailed, match="made with another note"):
            operator.send("POST", path, {"incident_note": "another"}, "once")
        with pytest.raises(CallFailed, match="made with another fresh_scope"):
            operator.send("POST", path, note | {"fresh_scope": True}, "once")
        fresh = operator.send("POST", path, again | {"fresh_scope": True})
    assert len({"job_dead", first["job_id"], second["job_id"], *keyed, fresh["job_id"]}) == 5
    assert set(keyed) == {ids.replay_job_id("acme", "job_dead", "once")}
    assert (first["replay_of"], first["replay_note"]) == ("job_dead", "the vendor is back")
    assert jobs[first["job_id"]].scope == dead.scope
    assert jobs[fresh["job_id"]].scope != dead.scope
    assert operator.get("/v1/dlq/job_dead")["job"]["status"] == "dead"


@pytest.mark.parametrize("note", [{}, {"incident_note": " \n"}])
def test_a_replay_without_a_note_is_refused(
    cluster: Cluster, operator: RunningOperator, note: dict[str, str]
) -> None:
    dead = make_job("job_dead", status="failed")
    cluster.write(dead, make_letter(dead))
    operator.shows("/v1/dlq/job_dead", status="failed")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    body = json.dumps(note).encode()
    status, text = operator.plain("/v1/dlq/job_dead/replay", "POST", headers, body)
    assert (status, json.loads(text)["errors"][0]["field"]) == (422, "incident_note")
    assert cluster.read("jobs.commands") == []


def test_what_may_be_replayed(cluster: Cluster, operator: RunningOperator) -> None:
    review, done = (
        make_job("job_review", status="needs_review"),
        make_job("job_done", status="succeeded"),
    )
    purged = make_job("job_purged", status="dead")
    cluster.write(review, done, make_letter(purged))
    operator.shows("/v1/jobs/job_done", status="succeeded")
    operator.shows("/v1/dlq/job_purged", kind="job")
    note = {"incident_note": "checked by hand"}
    with dispatching(cluster):
        replayed = operator.send("POST", "/v1/dlq/job_review/replay", note)
        assert replayed["replay_of"] == "job_review"
        for job_id, reason in {
            "job_done": "is succeeded",
            "job_purged": "was purged",
            "job_none": "no dead letter",
        }.items():
            with pytest.raises(CallFailed, match=reason):
                operator.send("POST", f"/v1/dlq/{job_id}/replay", note)


def test_nothing_under_v1_answers_without_the_token(operator: RunningOperator) -> None:
    for path in ("/v1/jobs", "/v1/tenants/acme", "/v1/none"):
        for wrong in (None, "Bearer wrong", f"Basic {TOKEN}"):
            headers = {"Authorization": wrong} if wrong else {}
            status, text = operator.plain(path, headers=headers)
            assert (status, json.loads(text)["type"]) == (401, "urn:tidegate:problem:unauthorized")
            assert "acme" not in text
    for path in ("/healthz", "/readyz", "/metrics"):
        assert operator.plain(path)[0] == 200


ERRORS: dict[str, tuple[str, str, bytes, int, str]] = {
    "unknown path": ("GET", "/v1/none", b"", 404, "route-unknown"),
    "wrong method": ("PATCH", "/v1/jobs", b"", 405, "method-not-allowed"),
    "no JSON": ("POST", JOBS, b"{", 400, "malformed-json"),
    "no object": ("POST", JOBS, b"[1]", 422, "invalid-request"),
    "too large": ("POST", JOBS, b'"' + b"x" * 300_000 + b'"', 413, "body-too-large"),
    "unknown job": ("GET", "/v1/jobs/job_none", b"", 404, "job-unknown"),
    "unknown source": ("GET", "/v1/tenants/acme/sources/s", b"", 404, "source-unknown"),
    "bad name": ("PUT", "/v1/tenants/a%20b", b"", 422, "invalid-request"),
    "bad status": ("GET", "/v1/jobs?status=done", b"", 422, "invalid-request"),
    "misspelt filter": ("GET", "/v1/jobs?tenant=acme", b"", 422, "invalid-request"),
    "filter given twice": ("GET", "/v1/dlq?tenant_id=a&tenant_id=b", b"", 422, "invalid-request"),
    "no limit": ("GET", "/v1/dlq?limit=0", b"", 422, "invalid-request"),
    "limit too high": ("GET", "/v1/jobs?limit=00201", b"", 422, "invalid-request"),
    "bad cursor": ("GET", "/v1/jobs?cursor=W10", b"", 422, "invalid-request"),
}


def test_every_error_is_a_problem_with_a_stable_type(operator: RunningOperator) -> None:
    for case, (method, path, body, status, name) in ERRORS.items():
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = operator.plain(path, method, headers, body or None)
        problem = json.loads(answer[1])
        assert (answer[0], problem["status"]) == (status, status), case
        assert problem["type"] == f"urn:tidegate:problem:{name}", case
        assert problem["detail"], case


def test_metrics_show_the_replicas_of_the_topologys_topics(operator: RunningOperator) -> None:
    """One broker has every replica, and all are in sync; topics that do not exist are left out."""

    def shown() -> dict[str, float]:
        lines = operator.plain("/metrics")[1].splitlines()
        found = (line.split() for line in lines if line.startswith("tidegate_broker_"))
        return {name.removeprefix("tidegate_broker_"): float(value) for name, value in found}

    health = eventually(  # the first answer may be older than the topics
        lambda: told if (told := shown()).get("partitions", 0) > len(FOLLOWED) else None,
        what="the brokers tell of all topics",
    )
    del health["partitions"]
    assert health.pop("silent_seconds") < 60
    assert set(health.values()) == {0}


def test_metrics_count_what_the_read_model_holds(
    cluster: Cluster, operator: RunningOperator
) -> None:
    dead = make_job("job_dead", status="dead")
    cluster.write(make_job("job_1"), make_job("job_2"), dead, make_letter(dead))
    operator.shows("/v1/dlq/job_dead", status="dead")
    operator.shows("/v1/jobs/job_2", status="pending")
    metrics = operator.plain("/metrics")[1]
    assert 'tidegate_jobs{status="pending"} 2.0' in metrics
    assert 'tidegate_jobs{status="succeeded"} 0.0' in metrics
    assert "tidegate_queue_depth 2.0" in metrics
    assert "tidegate_dead_letters 1.0" in metrics
    assert 'tidegate_stage_lag_seconds{stage="operator"}' in metrics
    assert 'tidegate_stage_lag_records{stage="operator"}' in metrics
    assert "tidegate_quarantined_bodies 0.0" in metrics
    (age,) = [
        float(line.split()[1])
        for line in metrics.splitlines()
        if line.startswith("tidegate_oldest_ready_job_age_seconds ")
    ]
    assert age > 86_400
    assert "acme" not in metrics

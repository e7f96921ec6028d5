"""Timelines: what became of an event or job as spans, page by page, of one's own tenants alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support.access_desk import BOOTSTRAP_TOKEN, Api, serving
from support.operator_cluster import event_job, make_entry, make_event, make_job, make_letter
from support.outgoing_rows import make_attempt, make_delivery

from streams.api.read_model.projections import Changes, project
from streams.http.moments import milliseconds
from streams.runtime.processor import Record
from streams.serde import keys
from streams.serde.codec import (
    DEAD_LETTER,
    DELIVERY,
    DELIVERY_ATTEMPT,
    DUPLICATE,
    ENVELOPE,
    JOB,
    LEDGER_ENTRY,
    STEP_RESULT,
)
from streams.serde.records import Attempt, Duplicate, Job, Parent, StepResult, Wait

T = 1_700_000_000_000
EVENT = make_event()
STEPS = "dispatcher.checkpoints.changelog"
_OFFSETS = count()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving(tmp_path) as made:
        yield made


def fold(api: Api, topic: str, key: bytes, value: bytes, at: int = T) -> None:
    batch: dict[str, Changes] = {}
    project(Record(topic, 0, next(_OFFSETS), at, key, value), batch)
    for changes in batch.values():
        changes.write(api.desk.rows)


def has(api: Api, *jobs: Job) -> None:
    for job in jobs:
        fold(api, "jobs", job.job_id.encode(), JOB.encode(job))


def has_step(api: Api, job: Job, name: str, at: int, kind: str = "step", **fields: Any) -> None:
    key = keys.checkpoint_key(job.job_id, job.incarnation, name)
    result = StepResult(name, kind, value="1", **fields)
    fold(api, STEPS, key, STEP_RESULT.encode(result), at)


def arrived(api: Api, at: int = T + 5) -> None:
    fold(api, "events", b"acme", ENVELOPE.encode(EVENT), at)


async def timeline(api: Api, path: str = "events/evt_k1", query: str = "") -> dict[str, Any]:
    status, found = await api.ask(BOOTSTRAP_TOKEN, "GET", f"/v1/{path}/timeline{query}")
    assert status == 200, found
    return found


def told(found: dict[str, Any], *fields: str) -> list[tuple[Any, ...]]:
    return [tuple(span[name] for name in fields) for span in found["spans"]]


def ms(text: str | None) -> int | None:
    """How many milliseconds after T a time is."""
    return None if text is None else milliseconds(text) - T


def times(found: dict[str, Any], kind: str) -> list[tuple[int | None, int | None]]:
    return [(ms(s["from"]), ms(s["to"])) for s in found["spans"] if s["kind"] == kind]


async def test_an_event_without_a_job_has_its_arrival_alone(api: Api) -> None:
    arrived(api)
    found = await timeline(api)
    (span,) = found["spans"]
    assert (span["kind"], span["name"], span["id"]) == ("received", "shop order.paid", "evt_k1")
    assert (ms(span["from"]), ms(span["to"]), span["failed"]) == (0, 5, False)
    assert "no job" in span["detail"]
    assert (found["job_id"], found["trace_id"], found["next_cursor"]) == (None, None, None)


async def test_a_job_is_shown_from_its_queueing_over_failed_runs_to_its_end(api: Api) -> None:
    arrived(api)
    history = (
        Attempt(1, T + 200, "w/1", "timeout", "TimeoutError: slow", began_at=T + 100),
        Attempt(2, T + 600, "w/1", "failed", "KeyError: 'x'", began_at=T + 500),
    )
    job = event_job(
        EVENT,
        status="succeeded",
        run_id="run_3",
        began_at=T + 900,
        updated_at=T + 1_000,
        history=history,
        created_at=T + 10,
    )
    has(api, job)
    found = await timeline(api)
    assert told(found, "kind", "status", "failed")[1:] == [
        ("job", "succeeded", False),
        ("queued", "over", False),
        ("run", "timeout", True),
        ("queued", "over", False),
        ("run", "failed", True),
        ("queued", "over", False),
        ("run", "succeeded", False),
    ]
    assert times(found, "run") == [(100, 200), (500, 600), (900, 1_000)]
    assert times(found, "queued") == [(10, 100), (200, 500), (600, 900)]
    assert {span["exact"] for span in found["spans"]} == {True}
    assert {span["parent"] for span in found["spans"][2:]} == {job.job_id}
    assert found["spans"][1]["parent"] == "evt_k1"
    assert (found["job_id"], found["trace_id"]) == (job.job_id, "a" * 32)
    assert (ms(found["from"]), ms(found["to"])) == (0, 1_000)


async def test_a_job_of_an_earlier_release_has_guessed_beginnings(api: Api) -> None:
    history = (Attempt(1, T + 200, "w/1", "failed", "KeyError: 'x'"),)
    has(
        api,
        make_job(
            status="dead",
            run_id="run_1",
            history=history,
            updated_at=T + 200,
            last_error="KeyError",
        ),
    )
    found = await timeline(api, "jobs/job_a")
    assert told(found, "kind", "status", "failed", "exact") == [
        ("job", "dead", True, True),
        ("run", "failed", True, False),
    ]


async def test_what_waits_has_no_end_and_says_why(api: Api) -> None:
    wait = Wait("answer", "event", 0, b"", group=0, match='{"type":"reply"}', at=T + 300)
    has(
        api,
        make_job("job_w", status="waiting", run_id="r", began_at=T + 100, waits=(wait,),
                 updated_at=T + 300),
        make_job("job_p"),
    )  # fmt: skip
    waiting = await timeline(api, "jobs/job_w")
    assert told(waiting, "kind", "name", "status")[1:] == [
        ("queued", "waits for run 1", "over"),
        ("run", "run 1", "parked"),
        ("wait", "answer", "waiting"),
    ]
    assert times(waiting, "wait") == [(300, None)]
    assert waiting["to"] is None
    pending = await timeline(api, "jobs/job_p")
    (_, queued) = pending["spans"]
    assert (queued["kind"], queued["to"], queued["status"]) == ("queued", None, "pending")
    assert queued["detail"]


async def test_steps_and_waits_that_are_over_begin_after_what_came_before(api: Api) -> None:
    job = make_job(status="succeeded", run_id="r", began_at=T + 100, updated_at=T + 900)
    has(api, job)
    has_step(api, job, "fetch", T + 200)
    has_step(api, job, "!!heartbeat", T + 210, "heartbeat")
    has_step(api, job, "answer", T + 700, "event", raises="WaitTimeout", message="no answer")
    has_step(api, job, "draft", T + 800)
    found = await timeline(api, "jobs/job_a")
    assert told(found, "kind", "name", "failed", "exact")[3:] == [
        ("step", "fetch", False, False),
        ("wait", "answer", True, False),
        ("step", "draft", False, False),
    ]
    assert times(found, "step") == [(100, 200), (700, 800)]
    assert times(found, "wait") == [(200, 700)]
    assert {s["parent"] for s in found["spans"] if s["kind"] == "step"} == {"job_a/run/1"}


async def test_effects_go_from_their_claim_to_their_outcome(api: Api) -> None:
    job = make_job(status="needs_review", run_id="r", began_at=T + 100, updated_at=T + 3_000)
    has(api, job)
    for action, status in (("mail/a", "done"), ("mail/b", "unknown"), ("mail/c", "failed")):
        entry = make_entry(job, action, status=status)
        key = keys.ledger_key("acme", job.scope, action)
        fold(api, "ledger", key, LEDGER_ENTRY.encode(entry))
    found = await timeline(api, "jobs/job_a")
    effects = [s for s in found["spans"] if s["kind"] == "effect"]
    assert [(s["name"], ms(s["to"]), s["failed"], s["parent"]) for s in effects] == [
        ("mail/a", 2_000, False, "job_a/run/1"),
        ("mail/b", None, True, "job_a/run/1"),
        ("mail/c", 2_000, True, "job_a/run/1"),
    ]


async def test_redeliveries_dead_records_and_deliveries_are_below_the_event(api: Api) -> None:
    arrived(api)
    again = Duplicate("acme", 3, T + 5, T + 50, "evt_last")
    fold(api, "duplicates", EVENT.fingerprint, DUPLICATE.encode(again))
    (offset,) = api.desk.rows.execute("SELECT position FROM events").fetchone()
    letter = make_letter(
        make_job(), id=f"dispatcher:events:0:{offset}", kind="record", topic="events", at=T + 60,
        reason="job_too_large",
    )  # fmt: skip
    fold(api, "dlq", letter.id.encode(), DEAD_LETTER.encode(letter))
    sent = make_delivery(status="delivered", updated_at=T + 90)
    fold(api, "deliveries", b"dlv_a", DELIVERY.encode(sent))
    for number, fields in ((1, {}), (2, {"error": None, "status": 200})):
        tried = make_attempt(sent, number, **fields)
        fold(api, "deliveries.attempts", b"dlv_a", DELIVERY_ATTEMPT.encode(tried))
    found = await timeline(api)
    assert told(found, "kind", "parent", "status", "failed") == [
        ("received", None, "accepted", False),
        ("redelivery", "evt_k1", "dropped", False),
        ("dead_letter", "evt_k1", "waits", True),
        ("delivery", "evt_k1", "delivered", False),
        ("attempt", "dlv_a", "http_status", True),
        ("attempt", "dlv_a", "delivered", False),
    ]
    assert times(found, "redelivery") == [(5, 50)]


async def test_replays_and_children_follow_their_jobs(api: Api) -> None:
    arrived(api)
    root = event_job(EVENT, status="dead", workflow_id="w", replayed_as="job_r", updated_at=T + 50)
    child = make_job(
        "job_c", workflow_id="w", depth=1, parent=Parent(root.job_id, 1, "all/1"), created_at=T + 1
    )
    deep = make_job(
        "job_d", workflow_id="w", depth=2, parent=Parent("job_c", 1, "x"), created_at=T + 2
    )
    stranger = make_job("job_s", workflow_id="w", created_at=T + 3)
    replay = make_job("job_r", replay_of=root.job_id, created_at=T + 99, replay_note="it is up")
    has(api, root, child, deep, stranger, replay)
    delivery = make_delivery(job_id=root.job_id, kind="job", type="job.dead")
    fold(api, "deliveries", b"dlv_a", DELIVERY.encode(delivery))
    found = await timeline(api)
    whole = [s for s in found["spans"] if s["kind"] in ("job", "child", "replay", "delivery")]
    assert [(s["kind"], s["id"], s["parent"]) for s in whole] == [
        ("job", root.job_id, "evt_k1"),
        ("delivery", "dlv_a", root.job_id),
        ("child", "job_c", root.job_id),
        ("child", "job_d", "job_c"),
        ("replay", "job_r", root.job_id),
    ]
    assert whole[-1]["detail"] == "it is up"
    assert told(await timeline(api, "jobs/job_c"), "id")[0] == ("job_c",)


async def test_pages_of_any_size_have_each_span_once_in_the_same_order(api: Api) -> None:
    arrived(api)
    root = event_job(EVENT, status="succeeded", run_id="r", began_at=T + 1, workflow_id="w")
    has(api, root)
    for number in range(7):
        parent = Parent(root.job_id, 1, f"all/{number}")
        has(api, make_job(f"job_{number}", workflow_id="w", parent=parent, depth=1))
        has_step(api, root, f"step{number}", T + 10 + number)
    has(api, make_job("job_r", replay_of=root.job_id, created_at=T + 99))
    every = (await timeline(api))["spans"]
    assert len(every) > 20
    for limit in (1, 2, 3, 5, len(every)):
        seen, query = list[Any](), f"?limit={limit}"
        while True:
            found = await timeline(api, query=query)
            assert len(found["spans"]) <= limit
            seen += found["spans"]
            if found["next_cursor"] is None:
                break
            query = f"?limit={limit}&cursor={found['next_cursor']}"
        assert seen == every


async def test_only_what_failed_is_shown_if_that_is_asked_for(api: Api) -> None:
    arrived(api)
    root = event_job(EVENT, status="succeeded", run_id="r", began_at=T + 1, workflow_id="w")
    dead = make_job(
        "job_x", status="dead", last_error="KeyError: 'x'", workflow_id="w", depth=1,
        parent=Parent(root.job_id, 1, "x"),
    )  # fmt: skip
    has(api, root, dead)
    found = await timeline(api, query="?failed_only=true")
    assert told(found, "id", "detail") == [("job_x", "KeyError: 'x'")]


@pytest.mark.parametrize(
    "query", ["?limit=0", "?limit=1001", "?cursor=x", "?failed_only=maybe", "?cursor=WzEsImEiXQ"]
)
async def test_an_odd_page_is_refused(api: Api, query: str) -> None:
    arrived(api)
    status, found = await api.ask(BOOTSTRAP_TOKEN, "GET", f"/v1/events/evt_k1/timeline{query}")
    assert (status, found["type"]) == (422, "urn:tidegate:problem:invalid-request")


async def test_what_is_not_there_or_of_another_tenant_is_unknown(api: Api) -> None:
    arrived(api)
    job = event_job(EVENT)
    has(api, job)
    token = api.office.token("viewer", frozenset({"beta"}))
    for path, name in ((f"jobs/{job.job_id}", "job"), ("events/evt_k1", "event")):
        status, found = await api.ask(token, "GET", f"/v1/{path}/timeline")
        assert (status, found["type"]) == (404, f"urn:tidegate:problem:{name}-unknown")


async def test_a_thousand_children_are_a_page_and_its_plan_sorts_nothing(api: Api) -> None:
    root = make_job("job_root", workflow_id="w", status="succeeded")
    has(api, root)
    for number in range(1_200):
        parent = Parent("job_root", 1, f"all/{number}")
        has(api, make_job(f"job_{number:04}", workflow_id="w", parent=parent, depth=1))
    first = await timeline(api, "jobs/job_root")
    assert len(first["spans"]) == 1_000
    second = await timeline(api, "jobs/job_root", f"?cursor={first['next_cursor']}")
    ids = [span["id"] for span in (*first["spans"], *second["spans"])]
    assert len(ids) == len(set(ids)) == 2_000
    plan = api.desk.rows.execute(
        "EXPLAIN QUERY PLAN SELECT record FROM jobs WHERE workflow_id = ? AND tenant_id = ?"
        " AND (created_at, job_id) >= (?, ?) ORDER BY created_at, job_id",
        ("w", "acme", 0, ""),
    ).fetchall()
    assert [row[3].split(" (")[0] for row in plan] == ["SEARCH jobs USING INDEX jobs_of_workflow"]

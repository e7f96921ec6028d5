"""What a person decides reaches the dispatcher, or is refused for what is wrong with it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from support.operator_cluster import make_entry, make_job
from support.operator_desk import OperatorDesk, client_of
from support.webhooks import source, tenant
from yarl import URL

from streams.api.jobs.job_request import JobRequest
from streams.api.read_model.database import Database
from streams.api.sent_commands import SentCommand, SentCommands
from streams.serde.codec import JOB, LEDGER_ENTRY, REJECTION
from streams.serde.ids import replay_job_id, submitted_job_id
from streams.serde.job_states import JobStatus
from streams.serde.records import Attempt, Job, LedgerEntry, Rejection, Settle

CODECS: dict[type, tuple[str, Any]] = {
    Job: ("jobs", JOB),
    LedgerEntry: ("ledger", LEDGER_ENTRY),
    Rejection: ("rejections", REJECTION),
}


class Desk(OperatorDesk):
    """`coming` is what the read model shows once it has caught up."""

    def __init__(self, rows: sqlite3.Connection) -> None:
        super().__init__(rows)
        self.coming: list[Job | LedgerEntry] = []

    def fold(self, *values: Job | LedgerEntry | Rejection) -> None:
        found = ((*CODECS[type(each)], each) for each in values)
        self.project((topic, b"", codec.encode(each)) for topic, codec, each in found)

    async def read_barrier(self, *_: Any) -> None:
        self.fold(*self.coming)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    rows = Database(tmp_path / "m.sqlite").open_writer()
    yield Desk(rows)
    rows.close()


@pytest.fixture
async def api(desk: Desk) -> AsyncIterator[TestClient[Any, Any]]:
    async with client_of(desk) as client:
        yield client


def settlement(action: str) -> URL:
    return URL(f"/v1/jobs/job_a/effects/{action}/settle", encoded=True)


@pytest.mark.parametrize(
    ("key", "quoted"), [("two\nlines", "two%0Alines"), ("a/settle", "a%2Fsettle"), ("%", "%25")]
)
async def test_an_effect_is_settled_whatever_its_key(
    desk: Desk, api: TestClient[Any, Any], key: str, quoted: str
) -> None:
    job = make_job("job_a", status="needs_review")
    desk.fold(job, make_entry(job, f"refund/{key}", status="review"))
    body = {"status": "not_done", "note": "asked the bank"}
    answer = await api.post(settlement(f"refund%2F{quoted}"), json=body)
    assert answer.status == 202, await answer.text()
    (settle,) = desk.sent
    assert isinstance(settle, Settle)
    assert settle.action == f"refund/{key}"


@pytest.mark.parametrize(
    ("status", "answered"),
    [
        ("dead", 202),
        ("failed", 202),
        ("cancelled", 202),
        ("succeeded", 202),
        ("pending", 409),
        ("running", 409),
        ("scheduled", 409),
        ("waiting", 409),
    ],
)
async def test_an_effect_of_a_job_that_has_ended_is_settled_and_no_other(
    desk: Desk, api: TestClient[Any, Any], status: JobStatus, answered: int
) -> None:
    job = make_job("job_a", status=status)
    left = make_entry(job, "refund/1", status="unknown")
    desk.fold(job, left)
    body = {"status": "done", "result": {"id": 2**64 - 1}, "note": "asked the bank"}
    answer = await api.post(settlement("refund%2F1"), json=body)
    told = await answer.json()
    assert answer.status == answered, told
    text = '{"id":18446744073709551615}'
    sent = [Settle("refund/1", "done", text, "asked the bank", "operator")]
    assert desk.sent == (sent if answered == 202 else [])
    desk.fold(replace(left, status="done", result=text, settled_by="operator"))
    otherwise = {"status": "not_done", "note": "the bank was wrong"}
    assert (await api.post(settlement("refund%2F1"), json=otherwise)).status == 409
    assert (await api.post(settlement("refund%2F1"), json=body)).status == 202, "said twice"


@pytest.mark.parametrize(
    ("result", "why"),
    [("1e400", "number is infinity"), ('"\\ud800"', "surrogate"), ("[" * 2_000, "depth limit")],
)
async def test_a_body_that_cannot_be_read_says_why_and_where(
    api: TestClient[Any, Any], result: str, why: str
) -> None:
    """`1e400` is JSON, and was refused as none."""
    body = '{"status": "done", "note": "n", "result": ' + result
    told = await (await api.post(settlement("refund%2F1"), data=body + "}")).json()
    assert told["type"].endswith("malformed-json")
    assert why in told["detail"]
    assert "line 1 column" in told["detail"]


async def test_a_result_nested_deeper_than_can_be_kept_is_refused(
    desk: Desk, api: TestClient[Any, Any]
) -> None:
    job = make_job("job_a", status="needs_review")
    desk.fold(job, make_entry(job, "refund/1", status="review"))
    body: dict[str, Any] = {"status": "done", "note": "asked the bank", "result": 1}
    for _ in range(300):
        body["result"] = [body["result"]]
    answer = await api.post(settlement("refund%2F1"), json=body)
    told = await answer.json()
    assert (answer.status, told["errors"][0]["field"]) == (422, "result")
    assert desk.sent == []


async def test_a_replay_that_another_process_was_asked_for_under_its_key_is_the_same_one(
    desk: Desk, api: TestClient[Any, Any]
) -> None:
    """That one may have been killed before it answered, and the read model be a little late."""
    old, new_id = make_job("job_a", status="dead"), replay_job_id("acme", "job_a", "k1")
    desk.fold(old)
    made = make_job(new_id, scope=old.scope, replay_of="job_a", replay_note="mended")
    desk.coming = [replace(old, replayed_as=new_id), made]
    answer = await api.post(
        "/v1/dlq/job_a/replay", json={"incident_note": "mended"}, headers={"Idempotency-Key": "k1"}
    )
    told = await answer.json()
    assert (answer.status, told.get("job_id"), desk.sent) == (202, new_id, []), told
    another = await api.post("/v1/dlq/job_a/replay", json={"incident_note": "mended"})
    assert (another.status, (await another.json())["type"].rpartition(":")[2]) == (
        409,
        "already-replayed",
    )


async def test_a_replay_is_remembered_only_until_it_is_shown(
    desk: Desk, api: TestClient[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bulk replay of 100,000 jobs left 66 MB behind."""
    old, new_id = make_job("job_a", status="dead"), replay_job_id("acme", "job_a", "k1")
    desk.fold(old)
    call = ("/v1/dlq/job_a/replay",)
    asked: dict[str, Any] = {
        "json": {"incident_note": "mended"},
        "headers": {"Idempotency-Key": "k1"},
    }
    assert (await api.post(*call, **asked)).status == 202
    remembered = desk.sent_commands.last(("replay", "job_a"))
    assert remembered is not None, "nobody has read it yet"
    assert remembered.job_id == new_id

    async def command(*_: Any) -> int:
        desk.fold(make_job(new_id, scope=old.scope, replay_of="job_a", replay_note="mended"))
        return 2

    monkeypatch.setattr(desk, "command", command)
    assert (await api.post(*call, **asked)).status == 202
    assert desk.sent_commands.last(("replay", "job_a")) is None


def test_a_later_command_about_a_subject_outlives_the_result_of_the_earlier_one() -> None:
    sent, subject = SentCommands(), ("replay", "job_a")
    sent.remember(subject, SentCommand("job_2", b"", 0, ()))
    sent.shown(subject, "job_1")
    assert sent.last(subject) is not None
    sent.shown(subject, "job_2")
    assert sent.last(subject) is None


@pytest.mark.parametrize("before", [b"another body", None])
async def test_a_twin_past_its_window_does_not_answer_for_a_submission_that_waits(
    desk: Desk, api: TestClient[Any, Any], before: bytes | None
) -> None:
    """No dispatcher has taken it yet: it is neither refused nor done, and will be a job."""
    request = JobRequest(type="t")
    over = make_job(
        submitted_job_id("acme", "k1"),
        status="succeeded",
        event_time=1,
        request_hash=before or request.digest(),
    )
    desk.fold(over)
    desk.rows.execute(
        "INSERT INTO tenants VALUES ('acme', 'tenant', '', 0, 0, ?)", tenant("acme")[1:]
    )
    told = await submit(api)
    assert told == (503, "urn:tidegate:problem:not-shown")
    assert await submit(api) == told, "it may be sent again"
    desk.fold(replace(over, incarnation=2, status="pending", request_hash=request.digest()))
    assert await submit(api) == (202, over.type)


async def test_a_list_below_a_tenants_path_shows_that_tenant_alone(
    desk: Desk, api: TestClient[Any, Any]
) -> None:
    for n, owner in enumerate(("acme", "globex", None)):
        desk.fold(Rejection(f"rej_{n}", owner, None, "unauthorized", 1, n, n, cause=None))
    path = "/v1/tenants/acme/rejections"
    assert await listed(api, path) == (404, [])
    desk.rows.execute(
        "INSERT INTO tenants VALUES ('acme', 'tenant', '', 0, 0, ?)", tenant("acme")[1:]
    )
    assert await listed(api, path) == (200, ["rej_0"])
    assert await listed(api, f"{path}?tenant_id=globex") == (422, [])
    assert await listed(api, "/v1/rejections") == (200, ["rej_2", "rej_1", "rej_0"])
    assert await listed(api, "/v1/rejections?tenant_id=globex") == (200, ["rej_1"])
    assert await listed(api, "/v1/quarantine?status=gone") == (422, [])
    assert await listed(api, "/v1/dlq?job_id=job_a") == (422, [])


@pytest.mark.parametrize(
    ("call", "body", "carried_out"),
    [
        ("cancel", {}, {"cancel_requested": True}),
        ("move", {"pool": "default", "note": "n"}, {"asked_pool": "default"}),
    ],
)
async def test_a_call_says_whether_the_dispatcher_carried_its_command_out(
    desk: Desk,
    api: TestClient[Any, Any],
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    body: dict[str, Any],
    carried_out: dict[str, Any],
) -> None:
    job = make_job("job_a", asked_pool="other")
    desk.fold(job)
    answer = await api.post(f"/v1/jobs/job_a/{call}", json=body)
    told = await answer.json()
    assert (answer.status, told["answered"], len(desk.sent)) == (202, False, 1), "nobody reads it"

    desk.fold(replace(job, incarnation=2, continuations=1))
    told = await (await api.post(f"/v1/jobs/job_a/{call}", json=body)).json()
    assert told["answered"] is False, "it began anew, and goes on"

    async def command(*_: Any) -> int:
        desk.fold(replace(job, **carried_out))
        return 1

    monkeypatch.setattr(desk, "command", command)
    told = await (await api.post(f"/v1/jobs/job_a/{call}", json=body)).json()
    assert told["answered"] is True


async def test_a_rejection_is_shown_with_its_cause_and_an_older_one_without(
    desk: Desk, api: TestClient[Any, Any]
) -> None:
    desk.fold(Rejection("rej_1", "acme", "shop", "unauthorized", 1, 1, 1, "stale"))
    desk.fold(Rejection("rej_0", "acme", "shop", "unauthorized", 1, 0, 0, cause=None))
    shown = (await (await api.get("/v1/rejections")).json())["rejections"]
    assert [each["cause"] for each in shown] == ["stale", None]


async def listed(api: TestClient[Any, Any], path: str) -> tuple[int, list[str]]:
    """Status and ids of a list."""
    answer = await api.get(path)
    return answer.status, [each["id"] for each in (await answer.json()).get("rejections", [])]


async def submit(api: TestClient[Any, Any]) -> tuple[int, str]:
    """Status and type of an answer."""
    answer = await api.post(
        "/v1/tenants/acme/jobs", json={"type": "t"}, headers={"Idempotency-Key": "k1"}
    )
    return answer.status, (await answer.json())["type"]


async def test_the_sources_of_all_tenants_are_listed_a_page_at_a_time(
    desk: Desk, api: TestClient[Any, Any]
) -> None:
    for tenant_id in ("acme", "globex"):
        row = (tenant_id, "source", "shop", 0, source(tenant_id, "shop", "stripe")[1])
        desk.rows.execute("INSERT INTO tenants VALUES (?, ?, ?, ?, 0, ?)", row)
    first = await (await api.get("/v1/sources", params={"limit": "1"})).json()
    cursor = {"limit": "1", "cursor": first["next_cursor"]}
    second = await (await api.get("/v1/sources", params=cursor)).json()
    found = [each["tenant_id"] for page in (first, second) for each in page["sources"]]
    assert (found, second["next_cursor"]) == (["acme", "globex"], None)


async def test_a_job_that_no_dispatcher_has_read_is_shown_as_it_will_be_made(
    desk: Desk, api: TestClient[Any, Any]
) -> None:
    desk.rows.execute(
        "INSERT INTO tenants VALUES ('acme', 'tenant', '', 0, 0, ?)", tenant("acme")[1:]
    )
    later = await api.post("/v1/tenants/acme/jobs", json={"type": "t", "delay_seconds": 60})
    told = await later.json()
    assert (later.status, told["status"], told["why"]["reason"]) == (202, "scheduled", "unread")
    assert (told["scheduled_at"] > told["created_at"], told["timeout_seconds"]) == (True, None)
    old = make_job("job_a", status="dead", priority="undeclared", timeout_seconds=7.0)
    desk.fold(replace(old, history=(Attempt(1, 1, "w/1", "failed", "ValueError: x"),)))
    again = await api.post("/v1/dlq/job_a/replay", json={"incident_note": "mended"})
    told = await again.json()
    assert (again.status, told["status"], told["replay_of"]) == (202, "pending", "job_a")
    usual = desk.topology.default_priority
    assert (told["priority"], told["timeout_seconds"], told["history"]) == (usual, None, [])

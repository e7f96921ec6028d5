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
from streams.audit.chain import Head, linked
from streams.audit.entries import encoded, of_call
from streams.serde.codec import JOB, LEDGER_ENTRY, REJECTION
from streams.serde.ids import replay_job_id, submitted_job_id
from streams.serde.job_states import JobStatus
from streams.serde.records import DONE, Call, Job, LedgerEntry, Rejection, Settle

CODECS: dict[type, tuple[str, Any]] = {
    Job: ("jobs", JOB),
    LedgerEntry: ("ledger", LEDGER_ENTRY),
    Rejection: ("rejections", REJECTION),
}


class Desk(OperatorDesk):
    """`coming` is what the read model shows once it has caught up.

    `decides` are the next decisions: the reason of a refusal, or None for what is done. `made` is a
    job that appears once a command is sent.
    """

    def __init__(self, rows: sqlite3.Connection) -> None:
        super().__init__(rows)
        self.coming: list[Job | LedgerEntry] = []
        self.decides: list[str | None] = []
        self.made: Job | None = None

    def fold(self, *values: Job | LedgerEntry | Rejection) -> None:
        found = ((*CODECS[type(each)], each) for each in values)
        self.project((topic, b"", codec.encode(each)) for topic, codec, each in found)

    async def read_barrier(self, *_: Any) -> None:
        self.fold(*self.coming)

    async def command(self, *given: Any) -> str:
        command_id = await super().command(*given)
        if self.decides:
            self.answer(command_id, self.decides.pop(0), "why")
        self.fold(*filter(None, [self.made]))
        return command_id


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


@pytest.mark.parametrize("status", ["dead", "failed", "cancelled", "succeeded", "running"])
async def test_a_settlement_is_asked_of_the_dispatcher_whatever_the_read_model_shows(
    desk: Desk, api: TestClient[Any, Any], status: JobStatus
) -> None:
    job = make_job("job_a", status=status)
    left = make_entry(job, "refund/1", status="unknown")
    desk.fold(job, left)
    body = {"status": "done", "result": {"id": 2**64 - 1}, "note": "asked the bank"}
    answer = await api.post(settlement("refund%2F1"), json=body)
    told = await answer.json()
    assert (answer.status, told["answered"]) == (202, False), told
    text = '{"id":18446744073709551615}'
    assert desk.sent == [Settle("refund/1", "done", text, "asked the bank", "operator")]
    desk.fold(replace(left, status="done", result=text, settled_by="operator"))
    otherwise = {"status": "not_done", "note": "the bank was wrong"}
    assert (await api.post(settlement("refund%2F1"), json=otherwise)).status == 409
    assert (await api.post(settlement("refund%2F1"), json=body)).status == 202, "said twice"
    assert len(desk.sent) == 1


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
    desk.decides = [None, "already_replayed"]
    answer = await api.post(
        "/v1/dlq/job_a/replay", json={"incident_note": "mended"}, headers={"Idempotency-Key": "k1"}
    )
    told = await answer.json()
    assert (answer.status, told.get("job_id")) == (202, new_id), told
    another = await api.post("/v1/dlq/job_a/replay", json={"incident_note": "mended"})
    told = await another.json()
    assert (another.status, told["type"].rpartition(":")[2]) == (409, "already-replayed")
    assert [each["job_id"] for each in told["replays"]] == [new_id]


async def test_a_replay_that_no_dispatcher_has_decided_names_its_command(
    desk: Desk, api: TestClient[Any, Any]
) -> None:
    desk.fold(make_job("job_a", status="dead"))
    answer = await api.post("/v1/dlq/job_a/replay", json={"incident_note": "mended"})
    told = await answer.json()
    assert (answer.status, told["replay_of"], told["answered"]) == (202, "job_a", False)
    assert told["command_id"] == "cmd_1"


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
        "INSERT INTO tenants VALUES ('acme', 'tenant', '', 0, 0, 1, NULL, NULL, ?)",
        tenant("acme")[1:],
    )
    for number in (1, 2):  # it may be sent again
        told = await submit(api)
        assert (told["answered"], told["command_id"]) == (False, f"cmd_{number}")
    desk.fold(replace(over, incarnation=2, status="pending", request_hash=request.digest()))
    assert (await submit(api))["status"] == "pending"


async def test_a_twin_and_a_key_that_came_with_another_body_are_answered_by_the_dispatcher(
    desk: Desk, api: TestClient[Any, Any]
) -> None:
    job_id = submitted_job_id("acme", "k1")
    desk.fold(make_job(job_id, status="succeeded", request_hash=b"another body"))
    desk.rows.execute(
        "INSERT INTO tenants VALUES ('acme', 'tenant', '', 0, 0, 1, NULL, NULL, ?)",
        tenant("acme")[1:],
    )
    desk.decides = [None, "key_reused"]
    assert (await submit(api))["job_id"] == job_id
    told = await submit(api)
    assert (told["type"].rpartition(":")[2], told["job_id"]) == ("key-reused", job_id)


async def test_a_job_of_another_body_is_no_answer_to_a_submission(
    desk: Desk, api: TestClient[Any, Any]
) -> None:
    """Of two bodies under one new key the dispatcher takes one, and refuses the other later."""
    desk.rows.execute(
        "INSERT INTO tenants VALUES ('acme', 'tenant', '', 0, 0, 1, NULL, NULL, ?)",
        tenant("acme")[1:],
    )
    desk.made = make_job(submitted_job_id("acme", "k1"), request_hash=b"another body")
    assert (await submit(api))["answered"] is False
    desk.made = make_job(submitted_job_id("acme", "k2"), request_hash=JobRequest(type="t").digest())
    assert (await submit(api, "k2"))["status"] == "pending"


async def test_a_list_below_a_tenants_path_shows_that_tenant_alone(
    desk: Desk, api: TestClient[Any, Any]
) -> None:
    for n, owner in enumerate(("acme", "globex", None)):
        desk.fold(Rejection(f"rej_{n}", owner, None, "unauthorized", 1, n, n, cause=None))
    path = "/v1/tenants/acme/rejections"
    assert await listed(api, path) == (404, [])
    desk.rows.execute(
        "INSERT INTO tenants VALUES ('acme', 'tenant', '', 0, 0, 1, NULL, NULL, ?)",
        tenant("acme")[1:],
    )
    assert await listed(api, path) == (200, ["rej_0"])
    assert await listed(api, f"{path}?tenant_id=globex") == (422, [])
    assert await listed(api, "/v1/rejections") == (200, ["rej_2", "rej_1", "rej_0"])
    assert await listed(api, "/v1/rejections?tenant_id=globex") == (200, ["rej_1"])
    assert await listed(api, "/v1/quarantine?status=gone") == (422, [])
    assert await listed(api, "/v1/dlq?job_id=job_a") == (422, [])


@pytest.mark.parametrize(
    ("call", "body"), [("cancel", {}), ("move", {"pool": "default", "note": "n"})]
)
async def test_a_call_says_whether_the_dispatcher_decided(
    desk: Desk, api: TestClient[Any, Any], call: str, body: dict[str, Any]
) -> None:
    desk.fold(make_job("job_a", asked_pool="other"))
    answer = await api.post(f"/v1/jobs/job_a/{call}", json=body)
    told = await answer.json()
    assert (answer.status, told["answered"], told["command_id"]) == (202, False, "cmd_1")
    assert told["job_id"] == "job_a"
    desk.decides = [None, "move_of_unknown"]
    told = await (await api.post(f"/v1/jobs/job_a/{call}", json=body)).json()
    assert (told["answered"], told["command_id"]) == (True, "cmd_2")
    refused = await api.post(f"/v1/jobs/job_a/{call}", json=body)
    told = await refused.json()
    assert (refused.status, told["type"].rpartition(":")[2]) == (409, "move-of-unknown")
    assert (told["detail"], told["command_id"]) == ("why", "cmd_3")


async def test_the_audit_is_listed_by_who_did_what_when(
    desk: Desk, api: TestClient[Any, Any]
) -> None:
    for number, name in enumerate(("ann", "bob", "ann")):
        call = Call(f"token:{name}", "operator", f"req_{number}")
        entry = of_call(
            call, "job.cancel", f"job_{number}", DONE, number, tenant_id="acme", after='{"a": 1}'
        )
        linked_ = linked(entry, Head("dispatcher:0", number))
        desk.project([("audit", *encoded(linked_))])
    desk.answer("cmd_1", "too_early", "wait")

    async def targets(**query: str) -> list[str]:
        answer = await api.get("/v1/audit", params=query)
        return [each["target"] for each in (await answer.json())["audit"]]

    assert await targets() == ["job_2", "job_1", "it", "job_0"]
    assert await targets(principal="token:ann") == ["job_2", "job_0"]
    assert await targets(verb="job.cancel", target="job_1") == ["job_1"]
    assert await targets(outcome="refused") == await targets(command="cmd_1") == ["it"]
    assert await targets(since="1970-01-01T00:00:00.002Z") == ["job_2"]
    assert (await api.get("/v1/audit?outcome=maybe")).status == 422
    shown = (await (await api.get("/v1/audit", params={"target": "job_2"})).json())["audit"][0]
    assert shown == {
        "id": "dispatcher:0:3",
        "at": "1970-01-01T00:00:00.002Z",
        "principal": "token:ann",
        "role": "operator",
        "tenant_id": "acme",
        "verb": "job.cancel",
        "target": "job_2",
        "outcome": "done",
        "reason": None,
        "detail": None,
        "note": None,
        "request_id": "req_2",
        "command_id": None,
        "before": None,
        "after": {"a": 1},
        "chain": "dispatcher:0",
        "seq": 3,
        "hash": shown["hash"],
    }


@pytest.mark.parametrize(
    ("given", "kept"), [("req-7", True), ("", False), ("a b", False), ("x" * 129, False)]
)
async def test_a_command_names_the_request_that_sent_it(
    desk: Desk, api: TestClient[Any, Any], given: str, kept: bool
) -> None:
    desk.fold(make_job("job_a"))
    await api.post("/v1/jobs/job_a/cancel", json={}, headers={"X-Request-Id": given})
    assert (desk.call.request_id == given) == kept
    assert (desk.call.principal, desk.call.role) == ("operator", "admin")
    assert desk.call.request_id


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


async def submit(api: TestClient[Any, Any], key: str = "k1") -> dict[str, Any]:
    answer = await api.post(
        "/v1/tenants/acme/jobs", json={"type": "t"}, headers={"Idempotency-Key": key}
    )
    told: dict[str, Any] = await answer.json()
    return told


async def test_the_sources_of_all_tenants_are_listed_a_page_at_a_time(
    desk: Desk, api: TestClient[Any, Any]
) -> None:
    for tenant_id in ("acme", "globex"):
        row = (tenant_id, "source", "shop", 0, source(tenant_id, "shop", "stripe")[1])
        desk.rows.execute("INSERT INTO tenants VALUES (?, ?, ?, ?, 0, 1, NULL, NULL, ?)", row)
    first = await (await api.get("/v1/sources", params={"limit": "1"})).json()
    cursor = {"limit": "1", "cursor": first["next_cursor"]}
    second = await (await api.get("/v1/sources", params=cursor)).json()
    found = [each["tenant_id"] for page in (first, second) for each in page["sources"]]
    assert (found, second["next_cursor"]) == (["acme", "globex"], None)

"""What a call does, reads, or is refused has an entry of the audit in its caller's name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from support.access_desk import Api, serving
from support.entries import recorded
from support.operator_cluster import make_job
from support.sealed_artifact import sealed

from streams.api.refused_attempts import MOST_A_SECOND, MOST_OF_ONE, REFUSED_ATTEMPTS
from streams.artifacts.reference import Reference, path_of
from streams.event_admission import Admitted, NewEvent
from streams.serde.codec import JOB, TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import AuditEntry, TenantRecord
from streams.testing.memory_store import MemoryStore
from streams.vault.data_key import new_key_record
from streams.vault.key_encryption import local_vault
from streams.vault.keyring import DataKeyring

ACME = frozenset({"acme"})
CONTENT = b"a bill"


@dataclass
class Audited:
    """The API, the entries that it writes, the time, and the events that it lets in."""

    api: Api
    entries: list[AuditEntry]
    now: float = 100.0
    events: list[NewEvent] = field(default_factory=list)

    async def submit(self, event: NewEvent) -> Admitted:
        self.events.append(event)
        return Admitted(f"evt_{len(self.events)}", None)

    async def send(self, topic: str, key: bytes, value: bytes, **_: Any) -> int:
        if topic == "bulk":
            self.api.desk.project([(topic, key, value)])
        return 1

    def told(self) -> list[tuple[str, str, str, str]]:
        return [(e.verb, e.target, e.tenant_id, e.outcome) for e in self.entries]


@pytest.fixture
async def audited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Audited]:
    entries = recorded(monkeypatch, lambda: made.now)
    async with serving(tmp_path) as api:
        made, desk = Audited(api, entries), api.desk
        parts: dict[str, Any] = {
            "admission": made,
            "producer": made,
            "follower": SimpleNamespace(folded=lambda _: 0),
            "bulk_turns": {},
        }
        for name, part in parts.items():
            setattr(desk, name, part)
        for tenant in ("acme", "beta"):
            record = TenantRecord(tenant, "tenant", "", False, "{}")
            desk.project([("tenants", tenant_key(tenant, "tenant", ""), TENANT.encode(record))])
        desk.project([("jobs", b"", JOB.encode(make_job("job_a", "acme", status="running")))])
        yield made


def with_artifact(at: Audited) -> None:
    """Have the job save an artifact."""
    vault, store = local_vault(bytes(32)), MemoryStore()
    record, book = new_key_record(vault, "acme"), DataKeyring(vault)
    book.apply(tenant_key("acme", "data_key", record.id), TENANT.encode(record))
    reference = Reference("art_1", "job_a", "bill.pdf", len(CONTENT), "application/pdf")
    store.put(path_of("acme", "job_a", "art_1"), sealed(book, "acme", reference, CONTENT))
    at.api.desk.artifacts, at.api.desk.keyring = store, book  # type: ignore[attr-defined]


async def test_a_read_of_an_artifact_has_an_entry_before_its_answer(audited: Audited) -> None:
    with_artifact(audited)
    token = audited.api.office.token("operator", ACME)
    assert (await audited.api.ask(token, "GET", "/v1/jobs/job_a/artifacts"))[0] == 200
    assert audited.entries == [], "a list shows no content"
    headers = {"Authorization": f"Bearer {token}", "X-Request-Id": "req-9"}
    async with audited.api.client.get("/v1/jobs/job_a/artifacts/art_1", headers=headers) as answer:
        assert (answer.status, await answer.read()) == (200, CONTENT)
    assert audited.told() == [("artifact.read", "job_a art_1", "acme", "done")]
    (entry,) = audited.entries
    assert (entry.principal[:6], entry.role, entry.request_id) == ("token:", "operator", "req-9")


@pytest.mark.parametrize(
    ("role", "tenant", "artifact", "status", "reason"),
    [
        ("viewer", "acme", "art_1", 403, "permission_missing"),
        ("operator", "beta", "art_1", 404, "job_unknown"),
        ("operator", "acme", "art_2", 404, "artifact_unknown"),
    ],
)
async def test_a_refused_read_of_an_artifact_has_an_entry(
    audited: Audited, role: str, tenant: str, artifact: str, status: int, reason: str
) -> None:
    with_artifact(audited)
    token = audited.api.office.token(role, frozenset({tenant}))
    path = f"/v1/jobs/job_a/artifacts/{artifact}"
    assert (await audited.api.ask(token, "GET", path))[0] == status
    assert audited.told() == [("artifact.read", path, "", "refused")]
    assert audited.entries[0].reason == reason


def counted(written: str) -> float:
    found: float = REFUSED_ATTEMPTS.labels(written)._value.get()
    return found


async def test_a_flood_of_one_caller_hides_no_refused_attempt_of_another(audited: Audited) -> None:
    """One who floods has some entries in a second, and leaves room for those of others."""
    api, before = audited.api, (counted("true"), counted("false"))
    loud, quiet, late = (api.office.token("viewer", ACME) for _ in range(3))
    for token, tries in ((loud, 10), (quiet, 3), (late, 1)):
        for _ in range(tries):
            assert (await api.ask(token, "POST", "/v1/jobs/job_a/cancel", {}))[0] == 403
    by = [entry.principal for entry in audited.entries]
    assert [by.count(each) for each in dict.fromkeys(by)] == [
        MOST_OF_ONE,
        MOST_A_SECOND - MOST_OF_ONE,
    ]
    after = counted("true") - before[0], counted("false") - before[1]
    assert after == (MOST_A_SECOND, 14 - MOST_A_SECOND)
    audited.now += 1
    assert (await api.ask(late, "POST", "/v1/jobs/job_a/cancel", {}))[0] == 403
    assert len(audited.entries) == MOST_A_SECOND + 1


async def test_the_course_of_a_bulk_act_has_entries(audited: Audited) -> None:
    """Who asks, and who lets the act of somebody else stand still, go on, or end."""
    api = audited.api
    asking, other = (api.office.token("operator", ACME) for _ in range(2))
    body = {"action": "jobs.cancel", "note": "a wrong release"}
    headers = {"Authorization": f"Bearer {asking}", "Idempotency-Key": "k"}
    for _ in range(2):
        async with api.client.post("/v1/bulk", json=body, headers=headers) as answer:
            assert answer.status == 202, await answer.text()
            id_ = (await answer.json())["bulk_id"]
    for act in ("pause", "resume", "cancel"):
        status, found = await api.ask(other, "POST", f"/v1/bulk/{id_}/{act}", {})
        assert status == 202, found
    verbs = ("bulk.begin", "bulk.pause", "bulk.resume", "bulk.cancel")
    assert audited.told() == [(verb, id_, "acme", "done") for verb in verbs]
    begun, *rest = audited.entries
    assert begun.note == "a wrong release"
    assert orjson.loads(begun.after or "") == {"action": "jobs.cancel", "count": 1}
    assert {each.principal for each in rest}.isdisjoint({begun.principal})
    assert rest[-1].note == "cancelled by the operator"


async def test_the_course_of_a_replay_has_entries_of_its_tenant(audited: Audited) -> None:
    api, token = audited.api, audited.api.office.token("operator", ACME)
    body = {"tenant_id": "acme", "job": "t", "note": "a new route"}
    status, found = await api.ask(token, "POST", "/v1/replays", body)
    assert status == 202, found
    path = f"/v1/replays/{found['replay_id']}"
    for method, after in (("POST", "/pause"), ("POST", "/resume"), ("DELETE", "")):
        status, told = await api.ask(
            token, method, path + after, {} if method == "DELETE" else None
        )
        assert status == 202, told
    verbs = ("replay.begin", "replay.pause", "replay.resume", "replay.stop")
    assert audited.told() == [(verb, found["replay_id"], "acme", "done") for verb in verbs]
    notes = ["a new route", None, None, "stopped by the operator"]
    assert [each.note for each in audited.entries] == notes


async def test_a_batch_of_events_has_entries_with_their_ids(audited: Audited) -> None:
    """An event names its source alone, so nothing else says who sent it."""
    token = audited.api.office.token("operator", ACME)
    events = [{"source": "shop", "event_type": "t", "payload": n} for n in range(300)]
    sent = {"events": [*events, {"source": "shop"}]}
    status, found = await audited.api.ask(token, "POST", "/v1/tenants/acme/events:batch", sent)
    assert (status, found["accepted"], found["refused"]) == (200, 300, 1)
    ids = [each["event_id"] for each in found["results"] if "event_id" in each]
    told = [("event.submit", ids[n], "acme", "done") for n in (0, 250)]
    assert audited.told() == told
    states = [orjson.loads(each.after or "") for each in audited.entries]
    assert [id_ for each in states for id_ in each["events"]] == ids
    assert audited.entries[0].principal.startswith("token:")


async def test_a_batch_that_lets_nothing_in_has_no_entry(audited: Audited) -> None:
    token = audited.api.office.token("operator", ACME)
    status, _ = await audited.api.ask(
        token, "POST", "/v1/tenants/acme/events:batch", {"events": [{}]}
    )
    assert (status, audited.entries) == (200, [])


@pytest.mark.parametrize("way", ["batch", "source"])
async def test_nobody_sends_in_the_name_of_tidegate(audited: Audited, way: str) -> None:
    """Endpoints get messages of Tidegate's own under that source: they ask for approvals."""
    token = audited.api.office.token("admin", ACME)
    if way == "source":
        body: dict[str, Any] = {"scheme": "github", "secret": "s" * 32}
        path = "/v1/tenants/acme/sources/tidegate"
        status, found = await audited.api.ask(token, "PUT", path, body)
        assert (status, found["errors"][0]["field"]) == (422, "source")
    else:
        body = {"events": [{"source": "tidegate", "event_type": "approval.requested"}]}
        path = "/v1/tenants/acme/events:batch"
        status, found = await audited.api.ask(token, "POST", path, body)
        assert (status, found["refused"]) == (200, 1)
        assert found["results"][0]["problem"]["errors"][0]["field"] == "source"
    assert not audited.events
    assert not audited.entries

"""The operator's calls about approvals: what they show, what they send, and what they refuse."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from support.asking import Asker, digest, refund
from support.office import VAULT, Office, office

from streams.serde.ids import approval_id
from streams.vault.key_encryption import local_vault
from streams.vault.sealed_json import seal_json


@pytest.fixture
def asker() -> Asker:
    return Asker()


@pytest.fixture
async def api(
    asker: Asker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[TestClient[Any, Any]]:
    async with office(asker.desk, tmp_path, monkeypatch) as client:
        yield client


async def get(api: TestClient[Any, Any], path: str) -> Any:
    answer = await api.get(path)
    assert answer.status == 200, await answer.text()
    return await answer.json()


async def test_the_api_lists_shows_and_decides(asker: Asker, api: TestClient[Any, Any]) -> None:
    lease, id_ = asker.waiting()
    listed = await get(api, "/v1/approvals?tenant_id=acme&status=pending")
    expected = {
        "approval_id": id_,
        "tenant_id": "acme",
        "job_id": lease.job_id,
        "key": "refund",
        "prompt": "Refund ch_1?",
        "effects": [{"tool": "pay:refund", "key": "ch_1", "arguments": refund(82_000)}],
        "status": "pending",
        "by": None,
        "note": "",
    }
    assert listed["next_cursor"] is None
    (shown,) = listed["approvals"]
    assert shown.pop("expires_at")
    assert shown == expected
    (wait,) = (await get(api, f"/v1/jobs/{lease.job_id}"))["waits"]
    assert (wait["kind"], wait["approval_id"]) == ("approval", id_)
    body = {"note": "as agreed", "by": "ann", "edit": {"amount": 41_000}}
    answer = await api.post(f"/v1/approvals/{id_}/approve", json=body)
    told = await answer.json()
    assert (answer.status, told["status"], told["by"]) == (202, "approved", "ann")
    details = (await get(api, f"/v1/approvals/{id_}"))["details"]
    assert details["edit"] == {"amount": 41_000}
    assert details["digests"][0]["edited_sha256"] == digest(41_000).hex()
    assert asker.claim(asker.go_on(lease.job_id), 41_000).kind == "granted"
    again = await api.post(f"/v1/approvals/{id_}/reject", json={"note": "no"})
    problem = await again.json()
    assert (again.status, problem["by"]) == (409, "ann")
    assert problem["type"].endswith("already-decided")
    assert await get(api, "/v1/approvals?tenant_id=other") == {"approvals": [], "next_cursor": None}


async def test_the_api_refuses_what_comes_too_late(asker: Asker, api: TestClient[Any, Any]) -> None:
    _, id_ = asker.waiting()
    asker.worker.stay(3_601)
    late = await api.post(f"/v1/approvals/{id_}/approve", json={"note": ""})
    assert (late.status, (await late.json())["type"].rpartition(":")[2]) == (409, "expired")
    unknown = await api.post("/v1/approvals/apr_x/approve", json={})
    assert unknown.status == 404


async def test_the_api_refuses_an_edit_that_does_not_fit(
    asker: Asker, api: TestClient[Any, Any]
) -> None:
    lease, id_ = asker.waiting()
    for edit in ("41000", {"note": "x" * 70_000}, [{"tool": "a", "key": "b", "arguments": {}}]):
        answer = await api.post(f"/v1/approvals/{id_}/approve", json={"edit": edit})
        assert (answer.status, asker.status(lease)) == (422, "waiting")


async def test_a_decision_that_another_overtakes_is_told_who_decided_and_when(
    asker: Asker, api: TestClient[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lease, id_ = asker.waiting()
    command = Office.command

    async def late(self: Office, *given: Any) -> str:
        asker.decide(lease, id_, approved=False, by="bob")
        return await command(self, *given)

    monkeypatch.setattr(Office, "command", late)
    answer = await api.post(f"/v1/approvals/{id_}/approve", json={"by": "ann"})
    told = await answer.json()
    assert (answer.status, told["type"].rpartition(":")[2]) == (409, "already-decided")
    assert (told["by"], told["was"]) == ("bob", "rejected")
    assert told["at"]


async def test_a_second_vote_of_one_person_is_refused_as_one(
    asker: Asker, api: TestClient[Any, Any]
) -> None:
    _, id_ = asker.waiting(quorum=2)
    path = f"/v1/approvals/{id_}/approve"
    assert (await api.post(path, json={"by": "ann"})).status == 202
    again = await api.post(path, json={"by": "Ann "})
    assert (again.status, (await again.json())["type"].rpartition(":")[2]) == (
        409,
        "already-approved",
    )
    assert (await api.post(path, json={"by": "bob", "edit": {"amount": 1}})).status == 202
    unseen = await api.post(path, json={"by": "cid"})
    assert (await unseen.json())["type"].rpartition(":")[2] == "edited"
    assert (await api.post(path, json={"by": "cid", "edit": {"amount": 1}})).status == 202
    assert asker.approval().status == "approved"


@pytest.mark.parametrize("forged", ["other key", "other arguments", "fewer arguments"])
async def test_nobody_approves_what_cannot_be_shown(
    asker: Asker, api: TestClient[Any, Any], forged: str
) -> None:
    lease = asker.job()
    id_ = approval_id("acme", lease.scope, "refund")
    arguments = [] if forged == "fewer arguments" else [refund(8)]
    vault = local_vault(b"o" * 32) if forged == "other key" else VAULT
    asked = seal_json(None, vault, "acme", id_, {"prompt": "?", "arguments": arguments})
    asker.park(lease, asker.ask(lease, asked=asked))
    listed = (await get(api, "/v1/approvals"))["approvals"]
    assert (listed[0]["prompt"], listed[0]["effects"][0]["arguments"]) == (None, None)
    answer = await api.post(f"/v1/approvals/{id_}/approve", json={})
    assert (answer.status, asker.status(lease)) == (410, "waiting")
    assert (await api.post(f"/v1/approvals/{id_}/reject", json={})).status == 202


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
async def test_only_a_post_decides(asker: Asker, api: TestClient[Any, Any], method: str) -> None:
    lease, id_ = asker.waiting()
    for end in ("", "/approve", "/reject", "/approve?by=ann"):
        await api.request(method, f"/v1/approvals/{id_}{end}", json={"by": "ann"})
    assert (asker.approval().status, asker.status(lease)) == ("pending", "waiting")
    assert asker.approval().votes == ()

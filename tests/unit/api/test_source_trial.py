"""The call that sends a source a test event: what it answers, to whom, and how often it is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.access_desk import Api, serving
from support.webhooks import MemoryLog, source, tenant

from ingress.receive.admission import DirectAdmission
from streams.serde.codec import ENVELOPE
from streams.tenants.source_keys import Reference

PATH = "/v1/tenants/acme/sources/shop/test"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving(tmp_path) as made:
        log = MemoryLog()
        made.desk.log = log  # type: ignore[attr-defined]
        made.desk.admission = DirectAdmission(  # type: ignore[attr-defined]
            log, made.desk.vault, log.book, made.desk.topology
        )
        made.desk.project(
            [("tenants", *tenant("acme")), ("tenants", *source("acme", "shop", "stripe"))]
        )
        yield made


async def ask(api: Api, role: str = "operator", body: Any = None, **headers: str) -> Any:
    token = api.office.token(role, frozenset({"acme"}))
    headers |= {"Authorization": f"Bearer {token}"}
    async with api.client.post(PATH, json=body or {}, headers=headers) as answer:
        return answer.status, await answer.json()


def log_of(api: Api) -> MemoryLog:
    return api.desk.log  # type: ignore[attr-defined, no-any-return]


async def test_it_answers_the_event_that_the_sample_became(api: Api) -> None:
    status, found = await ask(api, body={"sample": "invoice.paid"})
    assert (status, found["outcome"], found["sample"]) == (200, "accepted", "invoice.paid")
    kept = ENVELOPE.decode(log_of(api).on("events.received")[0].value)
    assert (found["event_id"], found["event_type"]) == (kept.event_id, "invoice.paid")
    assert kept.request_id is not None, "the event names the call that the audit names"


async def test_a_repetition_under_the_same_key_is_the_same_event(api: Api) -> None:
    token = api.office.token("operator", None)
    answers = []
    for key in ("k1", "k1", "k2"):
        headers = {"Idempotency-Key": key, "Authorization": f"Bearer {token}"}
        async with api.client.post(PATH, json={}, headers=headers) as answer:
            answers.append(await answer.json())
    first, again, other = answers
    assert (first["outcome"], again["outcome"], other["outcome"]) == (
        "accepted",
        "duplicate",
        "accepted",
    )
    assert first["event_id"] == again["event_id"] != other["event_id"]


async def test_a_mapping_that_fits_nothing_shows_as_a_quarantine_would(api: Api) -> None:
    fits_nothing = source("acme", "shop", "stripe", mapping={"event_type": "kind"})
    api.desk.project([("tenants", *fits_nothing)])
    _, found = await ask(api)
    assert (found["outcome"], found["reason"], found["job_id"]) == (
        "quarantined",
        "event_type",
        None,
    )
    assert "mapping.event_type" in found["detail"]


@pytest.mark.parametrize(
    ("kept", "status", "named"),
    [
        (source("acme", "shop", "stripe", (Reference("env:SHOP"),)), 409, "cannot-sign"),
        (source("acme", "shop", "carrier-pigeon"), 409, "cannot-sign"),
        (source("acme", "shop", "discord", (b"a" * 64,)), 409, "cannot-sign"),
        (tenant("acme", disabled=True), 403, "tenant-disabled"),
    ],
)
async def test_what_the_operator_cannot_send_is_refused_and_nothing_is_written(
    api: Api, kept: tuple[bytes, bytes], status: int, named: str
) -> None:
    api.desk.project([("tenants", *kept)])
    got, problem = await ask(api)
    assert (got, problem["type"]) == (status, f"urn:tidegate:problem:{named}")
    assert log_of(api).records == []


async def test_an_unknown_sample_is_refused_with_the_names_of_the_known_ones(api: Api) -> None:
    status, problem = await ask(api, body={"sample": "no.such"})
    assert (status, "invoice.paid" in str(problem)) == (422, True)


async def test_who_may_not_operate_or_is_of_another_tenant_sends_none(api: Api) -> None:
    assert (await ask(api, role="viewer"))[0] == 403
    token = api.office.token("operator", frozenset({"beta"}))
    assert (await api.ask(token, "POST", PATH, {}))[0] == 404
    assert log_of(api).records == []

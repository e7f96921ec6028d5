"""Causes by HTTP: what they show to whom, and what people decide about them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.access_desk import BOOTSTRAP_TOKEN, Api, serving
from support.operator_cluster import make_job, make_letter

from streams.api.bulk.dead_letter_actions import REPLAY, LetterFilter
from streams.api.causes.grouping import failure_of
from streams.process.wall_clock import wall_ms
from streams.serde.codec import DEAD_LETTER, JOB
from streams.serde.records import DeadLetter

MINUTE_MS = 60_000
FAR = "2999-01-01T00:00:00Z"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving(tmp_path) as made:
        yield made


def died(
    api: Api, number: int, tenant: str = "acme", ago: int = 10 * MINUTE_MS, **fields: Any
) -> DeadLetter:
    """Fold a dead job with its letter."""
    about = {name: fields.pop(name) for name in ("type", "code") if fields.get(name)}
    job = make_job(f"job_{number}", tenant, status="dead", **about)
    given = {"detail": f"SMTPError: 45{number} 'box {number}' is full"} | fields
    letter = make_letter(job, at=wall_ms() - ago, **given)
    api.desk.project(
        [
            ("jobs", job.job_id.encode(), JOB.encode(job)),
            ("dlq", letter.id.encode(), DEAD_LETTER.encode(letter)),
        ]
    )
    return letter


async def listed(api: Api, token: str = BOOTSTRAP_TOKEN, query: str = "") -> list[dict[str, Any]]:
    status, found = await api.ask(token, "GET", f"/v1/causes{query}")
    assert status == 200, found
    return list(found["causes"])


async def decided(api: Api, token: str, id_: str, what: str, **body: Any) -> tuple[int, Any]:
    return await api.ask(token, "POST", f"/v1/causes/{id_}/{what}", {"note": "why", **body})


async def test_letters_that_differ_in_values_are_one_cause(api: Api) -> None:
    died(api, 1, ago=90 * MINUTE_MS, code="1.4")
    died(api, 2, "beta", code="1.4")
    newest = died(api, 3, ago=5, code="1.4", replayed_at=1, replayed_as="job_9")
    died(api, 4, ago=MINUTE_MS, detail="KeyError: 'x'")
    first, second = await listed(api)
    assert first["normalized"] == "SMTPError: <number> <text> is full"
    assert (first["error_class"], first["message"]) == ("SMTPError", newest.detail)
    assert (first["kind"], first["type"], first["code_version"]) == ("job", "draft_reply", "1.4")
    assert (first["open"], first["total"], first["state"]) == (2, 3, "open")
    assert first["tenants"] == {"count": 2, "first": ["acme", "beta"]}
    assert (first["came_back"], first["until"], first["decided"]) == (False, None, None)
    assert first["first_seen"] < first["last_seen"]
    assert (len(first["trend"]["counts"]), sum(first["trend"]["counts"])) == (24, 3)
    assert first["trend"]["counts"][-1] >= 1
    assert second["error_class"] == "KeyError"
    status, alone = await api.ask(BOOTSTRAP_TOKEN, "GET", f"/v1/causes/{first['id']}")
    assert status == 200
    assert (len(alone["minutes"]["counts"]), sum(alone["minutes"]["counts"])) == (60, 2)
    assert alone["sample"]["id"] == "job_2", "the newest that is open"
    assert alone["sample"]["cause"] == first["id"]


async def test_records_are_told_apart_by_stage_and_topic(api: Api) -> None:
    for number, topic in ((1, "events"), (2, "duplicates")):
        died(api, number, kind="record", topic=topic, type=None, detail="no value", reason="bad")
    found = await listed(api)
    assert {(each["stage"], each["topic"], each["type"]) for each in found} == {
        ("dispatcher", "events", None),
        ("dispatcher", "duplicates", None),
    }
    assert {each["error_class"] for each in found} == {"bad"}


async def test_a_minute_trend_counts_the_last_hour(api: Api) -> None:
    died(api, 1, ago=0)
    died(api, 2, ago=30 * MINUTE_MS)
    died(api, 3, ago=90 * MINUTE_MS)
    (found,) = await listed(api, query="?trend=minute")
    assert (found["trend"]["every"], len(found["trend"]["counts"])) == ("minute", 60)
    assert sum(found["trend"]["counts"]) == 2


async def test_pages_go_from_the_newest_letter_to_the_oldest(api: Api) -> None:
    for number in range(7):
        died(api, number, ago=(number + 1) * MINUTE_MS, type=f"t{number}")
    seen, query = list[str](), "?limit=3"
    for _ in range(4):
        _, found = await api.ask(BOOTSTRAP_TOKEN, "GET", f"/v1/causes{query}")
        seen += [each["type"] for each in found["causes"]]
        if found["next_cursor"] is None:
            break
        query = f"?limit=3&cursor={found['next_cursor']}"
    assert seen == [f"t{number}" for number in range(7)]


async def test_filters_select_by_type_tenant_and_state(api: Api) -> None:
    died(api, 1, type="a")
    died(api, 2, "beta", type="b")
    (of_type,) = await listed(api, query="?job_type=a")
    (of_tenant,) = await listed(api, query="?tenant_id=beta")
    assert (of_type["type"], of_tenant["type"]) == ("a", "b")
    await decided(api, BOOTSTRAP_TOKEN, of_type["id"], "resolve")
    await decided(api, BOOTSTRAP_TOKEN, of_tenant["id"], "ignore", until=FAR)
    for state, types in (("open", []), ("resolved", ["a"]), ("ignored", ["b"])):
        assert [e["type"] for e in await listed(api, query=f"?state={state}")] == types
    assert (await api.ask(BOOTSTRAP_TOKEN, "GET", "/v1/causes?state=done"))[0] == 422


async def test_a_resolved_cause_comes_back_with_the_next_letter(api: Api) -> None:
    letter = died(api, 1)
    id_ = failure_of(letter).cause_id
    status, found = await decided(api, BOOTSTRAP_TOKEN, id_, "resolve", note="mended")
    assert (status, found["state"], found["came_back"]) == (200, "resolved", False)
    assert (found["decided"]["by"], found["decided"]["note"]) == ("operator", "mended")
    died(api, 2, ago=-5_000)
    (found,) = await listed(api, query="?state=open")
    assert (found["state"], found["came_back"], found["total"]) == ("open", True, 2)
    _, found = await decided(api, BOOTSTRAP_TOKEN, id_, "resolve")
    assert (found["state"], found["came_back"]) == ("resolved", False)
    _, found = await decided(api, BOOTSTRAP_TOKEN, id_, "reopen", note="no")
    assert (found["state"], found["decided"]["state"]) == ("open", "open")


async def test_an_old_letter_that_is_read_again_brings_nothing_back(api: Api) -> None:
    letter = died(api, 1)
    id_ = failure_of(letter).cause_id
    await decided(api, BOOTSTRAP_TOKEN, id_, "resolve")
    marked = replace(letter, replayed_at=wall_ms(), replayed_as="job_n")
    api.desk.project([("dlq", letter.id.encode(), DEAD_LETTER.encode(marked))])
    (found,) = await listed(api)
    assert (found["state"], found["came_back"], found["open"]) == ("resolved", False, 0)


async def test_an_ignored_cause_is_open_again_at_its_time(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = failure_of(died(api, 1)).cause_id
    status, found = await decided(api, BOOTSTRAP_TOKEN, id_, "ignore", until=FAR)
    assert (status, found["state"], found["until"]) == (200, "ignored", "2999-01-01T00:00:00.000Z")
    died(api, 2, ago=-5_000)
    assert [each["total"] for each in await listed(api, query="?state=ignored")] == [2]
    later = wall_ms() + 2**45
    monkeypatch.setattr("streams.api.causes.table.wall_ms", lambda: later)
    assert await listed(api, query="?state=ignored") == []
    (found,) = await listed(api, query="?state=open")
    assert (found["state"], found["until"], found["came_back"]) == ("open", None, False)


async def test_what_cannot_be_decided_is_refused(api: Api) -> None:
    id_ = failure_of(died(api, 1)).cause_id
    path = f"/v1/causes/{id_}"
    ask = api.ask
    assert (await ask(BOOTSTRAP_TOKEN, "POST", f"{path}/resolve", {}))[0] == 422
    assert (await ask(BOOTSTRAP_TOKEN, "POST", f"{path}/resolve", {"note": " "}))[0] == 422
    assert (await ask(BOOTSTRAP_TOKEN, "POST", f"{path}/ignore", {"note": "x"}))[0] == 422
    status, found = await decided(api, BOOTSTRAP_TOKEN, id_, "ignore", until="2020-01-01T00:00:00Z")
    assert (status, found["errors"][0]["field"]) == (422, "until")
    status, found = await decided(api, BOOTSTRAP_TOKEN, "cau_none", "resolve")
    assert (status, found["type"]) == (404, "urn:tidegate:problem:cause-unknown")
    viewer = api.office.token("viewer", None)
    assert (await decided(api, viewer, id_, "resolve"))[0] == 403


async def test_a_token_of_some_tenants_sees_and_counts_their_letters_alone(api: Api) -> None:
    died(api, 1, "acme", detail="SMTPError: 1 'for acme' is full")
    died(api, 2, "beta", ago=5, detail="SMTPError: 2 'for beta' is full")
    died(api, 3, "gamma", ago=MINUTE_MS, detail="SMTPError: 3 'for gamma' is full")
    one = api.office.token("operator", frozenset({"acme"}))
    two = api.office.token("operator", frozenset({"acme", "gamma"}))
    none = api.office.token("operator", frozenset({"delta"}))
    (found,) = await listed(api, one)
    assert (found["total"], found["tenants"]) == (1, {"count": 1, "first": ["acme"]})
    assert "acme" in found["message"]
    assert found["first_seen"] == found["last_seen"]
    (found,) = await listed(api, two)
    assert (found["total"], found["tenants"]) == (2, {"count": 2, "first": ["acme", "gamma"]})
    assert "gamma" in found["message"]
    assert sum(found["trend"]["counts"]) == 2
    assert await listed(api, none) == []
    assert await listed(api, one, "?tenant_id=beta") == []
    status, unknown = await api.ask(none, "GET", f"/v1/causes/{found['id']}")
    assert (status, unknown["type"]) == (404, "urn:tidegate:problem:cause-unknown")
    status, shown = await api.ask(two, "GET", f"/v1/causes/{found['id']}")
    assert (status, shown["sample"]["tenant_id"]) == (200, "gamma")


async def test_a_list_of_several_tenants_has_each_cause_once_on_all_pages(api: Api) -> None:
    tenants = ("acme", "beta", "gamma")
    for number in range(30):
        died(api, number, tenants[number % 3], ago=number * 1_000, type=f"t{number % 7}")
    token = api.office.token("operator", frozenset(tenants[:2]))
    seen, query = list[str](), "?limit=2"
    while True:
        _, found = await api.ask(token, "GET", f"/v1/causes{query}")
        seen += [each["type"] for each in found["causes"]]
        if found["next_cursor"] is None:
            break
        query = f"?limit=2&cursor={found['next_cursor']}"
    assert sorted(seen) == [f"t{number}" for number in range(7)]
    assert seen == sorted(seen, key=newest)


def newest(name: str) -> int:
    """The number of the newest letter of a type, of the tenants acme and beta."""
    return next(n for n in range(30) if n % 3 < 2 and f"t{n % 7}" == name)


async def test_a_token_of_some_tenants_decides_for_these_alone(api: Api) -> None:
    id_ = failure_of(died(api, 1, "acme")).cause_id
    died(api, 2, "beta")
    own = api.office.token("operator", frozenset({"acme"}))
    status, found = await decided(api, own, id_, "resolve", note="of acme")
    assert (status, found["state"], found["decided"]["note"]) == (200, "resolved", "of acme")
    assert api.desk.tenant_records[-1][0] == ("acme", "cause", id_)
    assert [each["state"] for each in await listed(api)] == ["open"]
    assert [e["state"] for e in await listed(api, query="?tenant_id=acme")] == ["resolved"]
    both = api.office.token("operator", frozenset({"acme", "beta"}))
    assert [each["state"] for each in await listed(api, both)] == ["open"]
    assert await listed(api, both, "?state=resolved") == []
    await decided(api, both, id_, "resolve")
    assert [each["state"] for each in await listed(api, both)] == ["resolved"]
    assert [each["state"] for each in await listed(api, both, "?state=resolved")] == ["resolved"]


async def test_who_decided_for_all_tenants_is_not_told_to_one(api: Api) -> None:
    id_ = failure_of(died(api, 1, "acme")).cause_id
    await decided(api, BOOTSTRAP_TOKEN, id_, "resolve", note="beta's server is back")
    own = api.office.token("operator", frozenset({"acme"}))
    (found,) = await listed(api, own)
    assert found["state"] == "resolved"
    assert (found["decided"]["by"], found["decided"]["note"]) == (None, None)
    status, found = await decided(api, own, id_, "reopen")
    assert (status, found["state"]) == (200, "open")


async def test_letters_of_a_cause_can_be_listed_and_dealt_with_in_bulk(api: Api) -> None:
    id_ = failure_of(died(api, 1)).cause_id
    died(api, 2)
    died(api, 3, detail="KeyError: 'x'")
    _, found = await api.ask(BOOTSTRAP_TOKEN, "GET", f"/v1/dlq?cause={id_}")
    assert {each["id"] for each in found["dead_letters"]} == {"job_1", "job_2"}
    assert {each["cause"] for each in found["dead_letters"]} == {id_}
    chosen = LetterFilter(cause=id_)
    rows = api.desk.database.read(lambda db: list(REPLAY.rows(db, chosen, 10)))
    assert {row.id for row in rows} == {"job_1", "job_2"}

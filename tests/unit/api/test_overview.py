"""The overview: where the flow stands and what waits for a person, each tenant's alone."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.access_desk import BOOTSTRAP_TOKEN, Api, serving
from support.folding import fold
from support.operator_cluster import make_entry, make_event, make_job, make_letter, make_quarantined
from support.outgoing_rows import make_attempt, make_delivery, make_endpoint, make_state

from streams.access.principal import BOOTSTRAP
from streams.api.overview import http as overview
from streams.api.overview import oldest
from streams.api.overview.attention import attention_json
from streams.api.overview.flow import flow_json
from streams.api.overview.minutes import minutes
from streams.api.read_model.database import Database
from streams.api.read_model.fold_session import Lag
from streams.api.rows import bounded as bounds
from streams.api.rows import restricted
from streams.http.moments import rfc3339
from streams.process.wall_clock import wall_ms
from streams.serde.bulk_records import BulkAsked, BulkPaused, BulkProgress, BulkRecord
from streams.serde.codec import BACKLOG, HELD, TENANT
from streams.serde.keys import bulk_key, held_key, tenant_key
from streams.serde.records import (
    Backlog,
    BacklogDepth,
    Held,
    LimitKey,
    PayloadRef,
    TenantRecord,
)
from streams.topology.breakers import Breaker
from streams.topology.limits import MaxQueued
from streams.topology.load import load

NOW = wall_ms()
TENANTS = ("acme", "beta")
TOPOLOGY = replace(load(), breakers=(Breaker("mail*"),))


@pytest.fixture
async def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    monkeypatch.setattr(overview, "wall_ms", lambda: NOW)
    async with serving(tmp_path) as made:
        yield made


async def stages(api: Api, token: str = BOOTSTRAP_TOKEN) -> dict[str, Any]:
    status, found = await api.ask(token, "GET", "/v1/overview")
    assert status == 200, found
    return {each.pop("name"): each for each in found["flow"]["stages"]}


async def counts(api: Api, token: str = BOOTSTRAP_TOKEN) -> dict[str, int]:
    status, found = await api.ask(token, "GET", "/v1/overview")
    assert status == 200, found
    return {each["name"]: each["count"] for each in found["attention"]["counts"] if each["count"]}


def fill_flow(rows: sqlite3.Connection) -> None:
    """What stands at each stage: twice as much of acme as of beta, and older."""
    for size, tenant in ((2, "acme"), (1, "beta")):
        for n in range(size):
            ago = NOW - size * 10_000 - n
            fold(rows, make_event(f"{tenant}-{n}", tenant), at=NOW)
            for status, times in (
                ("pending", {"ready_at": ago}),
                ("scheduled", {"next_retry_at": ago}),
                ("running", {"updated_at": ago}),
                ("succeeded", {"updated_at": NOW}),
            ):
                fold(rows, make_job(f"{tenant}-{n}-{status}", tenant, status=status, **times))
            job = make_job(f"{tenant}-{n}-running", tenant)
            fold(rows, make_entry(job, "mail:send/x", status="claimed", first_claimed_at=ago))
            sent = make_delivery(f"{tenant}-{n}", tenant, next_attempt_at=ago)
            fold(rows, sent, make_attempt(sent, at=NOW))


async def test_the_stages_come_in_the_order_of_the_flow(api: Api) -> None:
    fill_flow(api.desk.rows)
    fold(api.desk.rows, make_job("later", status="scheduled", next_retry_at=NOW + 60_000))
    found = await stages(api)
    names = ["ingress", "dedup", "scheduler", "dispatcher", "workers", "ledger", "delivery"]
    assert list(found) == names
    assert [each["count"] for each in found.values()] == [None, None, 4, 3, 3, 3, 3]
    lags = [each["lag_seconds"] for each in found.values()]
    assert lags == [None, None, 20.001, 20.001, None, None, 20.001]
    oldest = [each["oldest_at"] for each in found.values()]
    assert oldest == [None, None, *[rfc3339(NOW - 20_001)] * 5]


async def test_a_token_of_a_tenant_sees_its_own_flow_alone(api: Api) -> None:
    fill_flow(api.desk.rows)
    found = await stages(api, api.office.token("viewer", frozenset({"beta"})))
    assert [each["count"] for each in found.values()] == [None, None, 1, 1, 1, 1, 1]
    lags = [each["lag_seconds"] for each in found.values()]
    assert lags == [None, None, 10.0, 10.0, None, None, 10.0]
    assert found["ingress"]["rate"] == 0.02
    assert (await stages(api))["ingress"]["rate"] == 0.05


async def test_a_token_of_several_tenants_sees_what_is_theirs_together(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_flow(api.desk.rows)
    token = api.office.token("viewer", frozenset({"acme", "beta", "gamma"}))
    found = await stages(api, token)
    assert found == await stages(api)
    monkeypatch.setattr(restricted, "MOST_ASKED_APART", 2)
    many = await stages(api, token)
    assert [each["count"] for each in many.values()] == [each["count"] for each in found.values()]
    assert [each["lag_seconds"] for each in many.values()] == [None] * 7
    assert [each["oldest_at"] for each in many.values()] == [None] * 7


async def test_nothing_waits_in_an_empty_installation(api: Api) -> None:
    for token in (BOOTSTRAP_TOKEN, api.office.token("viewer", frozenset({"acme"}))):
        found = await stages(api, token)
        assert [each["lag_seconds"] for each in found.values()] == [None, None, 0, 0, None, None, 0]
        assert {each["oldest_at"] for each in found.values()} == {None}
        assert await counts(api, token) == {}


async def test_what_is_due_later_is_not_late(api: Api) -> None:
    later = NOW + 1
    fold(api.desk.rows, make_job("a", status="scheduled", scheduled_at=later))
    fold(api.desk.rows, make_delivery(next_attempt_at=later))
    fold(api.desk.rows, make_job("behind", status="scheduled", queued_behind="a"))
    found = await stages(api)
    assert (found["scheduler"]["count"], found["delivery"]["count"]) == (2, 1)
    assert (found["scheduler"]["lag_seconds"], found["delivery"]["lag_seconds"]) == (0, 0)


def paused(scope: str, value: str) -> TenantRecord:
    """The record of a pause in partition 0, in which all jobs of these tests are."""
    tenant, id_ = (value, "") if scope == "tenant" else ("", f"0/{scope}/{value}")
    return TenantRecord(tenant, "pause", id_, False, '{"by":"ann","reason":"x"}')


def held(reason: Any, tenant: str | None = None) -> Held:
    return Held(0, "default", "draft_reply", tenant, reason, 1, 3, "do something")


@pytest.mark.parametrize(
    "why",
    [
        paused("tenant", "acme"),
        paused("job_type", "draft_reply"),
        paused("pool", "default"),
        paused("source", "shop"),
        paused("tool", "mail"),
        held("no_worker"),
        held("tenant_disabled", "acme"),
    ],
    ids=str,
)
@pytest.mark.parametrize("tenants", [None, {"acme"}, {"acme", "beta"}])
async def test_what_is_paused_or_held_is_not_late(
    api: Api, why: TenantRecord | Held, tenants: set[str] | None
) -> None:
    keys = (LimitKey("/source", "shop"), LimitKey("/tool", "mail"))
    late = {"status": "pending", "ready_at": NOW - 9_000, "limit_keys": keys}
    fold(api.desk.rows, make_job("a", "acme", **late))
    token = api.office.token("viewer", None if tenants is None else frozenset(tenants))
    assert (await stages(api, token))["dispatcher"]["lag_seconds"] == 9
    if isinstance(why, Held):
        key = held_key(0, "default", "draft_reply", why.tenant_id)
        api.desk.project([("jobs.held", key, HELD.encode(why))])
    else:
        fold(api.desk.rows, why)
    found = (await stages(api, token))["dispatcher"]
    assert (found["count"], found["lag_seconds"]) == (1, 0)
    assert found["oldest_at"] == rfc3339(NOW - 9_000)
    other = {"status": "pending", "ready_at": NOW - 2_000, "type": "refund", "pool": "slow"}
    fold(api.desk.rows, make_job("b", "acme", **other))
    lag = (await stages(api, token))["dispatcher"]["lag_seconds"]
    assert lag == (0 if why == paused("tenant", "acme") else 2)


async def test_what_waits_for_a_free_slot_is_late(api: Api) -> None:
    fold(api.desk.rows, make_job("a", status="pending", ready_at=NOW - 9_000))
    key = held_key(0, "default", "draft_reply", None)
    api.desk.project([("jobs.held", key, HELD.encode(held("no_slot")))])
    assert (await stages(api))["dispatcher"]["lag_seconds"] == 9


async def test_behind_very_many_paused_jobs_it_is_not_known_what_is_late(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oldest, "_MOST_IN_ORDER", 3)
    rows = api.desk.rows
    fold(rows, paused("job_type", "draft_reply"))
    for n in range(3):
        fold(rows, make_job(f"p{n}", status="pending", ready_at=NOW - 9_000))
    assert (await stages(api))["dispatcher"]["lag_seconds"] == 0
    fold(rows, make_job("late", status="pending", ready_at=NOW - 1_000, type="refund"))
    assert (await stages(api))["dispatcher"]["lag_seconds"] is None


def fill_attention(api: Api, tenant: str) -> None:
    """One of each thing that waits for a person, and one of each that does not."""
    rows = api.desk.rows
    dead, review = make_job(f"{tenant}-d", tenant, status="dead"), make_job(f"{tenant}-r", tenant)
    fold(rows, dead, replace(review, status="needs_review"), make_job(f"{tenant}-ok", tenant))
    fold(rows, make_letter(dead))
    fold(rows, make_letter(make_job(f"{tenant}-x", tenant), discarded_at=1, discard_note="x"))
    fold(rows, make_letter(make_job(f"{tenant}-y", tenant), replayed_at=1, replayed_as="z"))
    fold(rows, make_letter(make_job(f"{tenant}-hand", tenant), manual_at=1, assignee="ann"))
    fold(rows, make_letter(make_job(f"{tenant}-done", tenant), manual_at=1, done_at=2))
    fold(rows, make_letter(make_job(f"{tenant}-again", tenant)))
    fold(rows, make_job(f"{tenant}-replay", tenant, replay_of=f"{tenant}-again"))
    fold(rows, make_entry(dead, "mail:send/x", status="unknown"))
    fold(rows, make_entry(make_job(f"{tenant}-ok", tenant), "mail:send/x", status="claimed"))
    fold(rows, make_delivery(f"{tenant}-p", tenant, status="parked", next_attempt_at=None))
    fold(rows, make_delivery(f"{tenant}-t", tenant, status="delivered", next_attempt_at=None))
    for id_, state in (
        ("ok", {}),
        ("open", {"circuit": "open", "failing_since": 1}),
        ("failing", {"failing_since": 1}),
    ):
        endpoint = make_endpoint(id_, tenant)
        fold(rows, endpoint, make_state(id_, tenant, **state))
    kept = make_quarantined(tenant.encode(), PayloadRef(0, (0,), 6, "kek"), tenant)
    fold(rows, kept)
    pause = TenantRecord(tenant, "pause", "", False, '{"by":"ann","reason":"x"}')
    held = Held(0, "default", "draft_reply", tenant, "tenant_disabled", 1, 3, "enable it")
    api.desk.project(
        [
            ("tenants", tenant_key(tenant, "pause", ""), TENANT.encode(pause)),
            ("jobs.held", held_key(0, "default", "draft_reply", tenant), HELD.encode(held)),
        ]
    )


EACH_ONCE = {
    "dead_letters": 1,
    "manual_work": 1,
    "reviews": 1,
    "unknown_effects": 1,
    "held": 1,
    "paused": 1,
    "quarantined": 1,
    "open_circuits": 1,
    "failing_endpoints": 1,
    "parked_deliveries": 1,
}


async def test_what_waits_for_a_person_is_counted_of_the_callers_tenants(api: Api) -> None:
    for tenant in TENANTS:
        fill_attention(api, tenant)
    assert await counts(api) == dict.fromkeys(EACH_ONCE, 2)
    assert await counts(api, api.office.token("viewer", frozenset({"beta"}))) == EACH_ONCE
    assert await counts(api, api.office.token("viewer", frozenset({"gamma"}))) == {}


async def test_a_count_is_that_of_the_list_at_its_path(api: Api) -> None:
    for tenant in TENANTS:
        fill_attention(api, tenant)
    _, found = await api.ask(BOOTSTRAP_TOKEN, "GET", "/v1/overview")
    seen = 0
    for each in found["attention"]["counts"]:
        if each["name"] in ("paused", "full_backlogs", "open_breakers", "stopped_bulk_acts"):
            continue  # a part of what their list shows
        status, answer = await api.ask(BOOTSTRAP_TOKEN, "GET", each["list"])
        (listed,) = [value for value in answer.values() if isinstance(value, list)]
        assert (status, len(listed)) == (200, each["count"]), each
        seen += len(listed)
    assert seen == 18


async def test_what_is_held_of_all_tenants_together_is_counted_for_whoever_sees_them_all(
    api: Api,
) -> None:
    """The list at the path of the count leaves it out for all others."""
    held = Held(0, "default", "draft_reply", None, "no_worker", 1, 3, "start one")
    key = held_key(0, "default", "draft_reply", None)
    api.desk.project([("jobs.held", key, HELD.encode(held))])
    assert await counts(api) == {"held": 1}
    token = api.office.token("viewer", frozenset({"acme"}))
    assert (await api.ask(token, "GET", "/v1/held"))[1]["held"] == []
    assert await counts(api, token) == {}


async def test_an_endpoint_that_somebody_disabled_waits_for_nobody(api: Api) -> None:
    rows = api.desk.rows
    fold(rows, make_state("cut", circuit="open", failing_since=1))
    fold(rows, make_state("fails", failing_since=1), make_state("removed", failing_since=1))
    fold(rows, *(make_endpoint(each, enabled=False) for each in ("cut", "fails")))
    assert await counts(api) == {}


def cut_off(rows: sqlite3.Connection, tool: str, name: str, tenant: str, **fields: Any) -> None:
    """A job of which a call waits for the circuit of a tool."""
    keys = (LimitKey("customers", f'"{tool}"'), LimitKey("@circuit", tool))
    fold(rows, make_job(name, tenant, **{"status": "pending", "limit_keys": keys, **fields}))


async def test_tools_that_a_circuit_breaker_has_cut_off_are_counted_by_whose_jobs_wait(
    api: Api,
) -> None:
    rows, beta = api.desk.rows, api.office.token("viewer", frozenset({"beta"}))
    for n, (tool, tenant) in enumerate(
        (("mail", "acme"), ("mail", "acme"), ("mail", "beta"), ("shop", "acme"))
    ):
        cut_off(rows, tool, f"waits-{n}", tenant, ready_at=NOW - 1_000 * n)
    cut_off(rows, "mail", "tries", "acme", status="running")
    quoted = (LimitKey("customers", '["@circuit","x"]'),)
    fold(rows, make_job("quoted", status="pending", limit_keys=quoted))
    assert await counts(api) == {}, "no breaker is declared any more"
    api.desk.topology = TOPOLOGY
    assert await counts(api) == {"open_breakers": 2}
    assert await counts(api, beta) == {"open_breakers": 1}
    _, found = await api.ask(BOOTSTRAP_TOKEN, "GET", "/v1/limits")
    told = [(each["tool"], each["waiting"], each["trying"]) for each in found["circuits"]]
    assert told == [("shop", 1, 0), ("mail", 3, 1)]
    _, found = await api.ask(beta, "GET", "/v1/limits")
    assert [(each["tool"], each["waiting"]) for each in found["circuits"]] == [("mail", 1)]


async def test_full_backlogs_are_those_of_the_callers_tenants(api: Api) -> None:
    api.desk.topology = replace(
        api.desk.topology, max_queued=(MaxQueued("tenant", 3), MaxQueued("global", 9))
    )
    depths = [BacklogDepth("tenant", "acme", 3), BacklogDepth("tenant", "beta", 2)]
    depths.append(BacklogDepth("global", "", 9))
    api.desk.project([("jobs.backlog", b"0", BACKLOG.encode(Backlog(0, tuple(depths))))])
    assert await counts(api) == {"full_backlogs": 2}
    assert await counts(api, api.office.token("viewer", frozenset({"acme"}))) == {
        "full_backlogs": 1
    }
    assert await counts(api, api.office.token("viewer", frozenset({"beta"}))) == {}


async def test_a_bulk_act_that_was_stopped_waits_until_somebody_lets_it_go_on(api: Api) -> None:
    asked = BulkAsked("jobs.cancel", "{}", "{}", "x", "admin", None, "acme", 1, (), {}, (), 1, b"d")

    def told(bulk_id: str, kind: str, body: Any) -> None:
        fold(api.desk.rows, BulkRecord(bulk_id, NOW, "ann", body), key=bulk_key(bulk_id, kind))

    for bulk_id, status, stops in (("a", "stopped", 1), ("b", "running", 0), ("c", "done", 1)):
        told(bulk_id, "asked", asked)
        told(bulk_id, "progress", BulkProgress(status, stops=stops))  # type: ignore[arg-type]
    assert await counts(api) == {"stopped_bulk_acts": 1}
    assert await counts(api, api.office.token("viewer", frozenset({"acme"})))
    assert await counts(api, api.office.token("viewer", frozenset({"beta"}))) == {}
    told("a", "paused", BulkPaused(False, 1))
    assert await counts(api) == {}


async def test_a_count_has_a_bound_and_says_so(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST", 3)
    for n in range(4):
        fold(
            api.desk.rows, make_job(f"r{n}", status="needs_review"), make_letter(make_job(f"d{n}"))
        )
    fold(api.desk.rows, make_job("again", replay_of="d0"))
    _, found = await api.ask(BOOTSTRAP_TOKEN, "GET", "/v1/overview")
    of = {each["name"]: (each["count"], each["more"]) for each in found["attention"]["counts"]}
    assert of["reviews"] == (3, True)
    assert of["dead_letters"] == (3, True)  # one of those that were looked at has a job
    assert of["approvals"] == (0, False)


async def test_it_says_how_old_its_rows_are(api: Api) -> None:
    _, found = await api.ask(BOOTSTRAP_TOKEN, "GET", "/v1/overview")
    assert (found["at"], found["behind_seconds"]) == (rfc3339(NOW), None)
    api.desk.follower = SimpleNamespace(lag=Lag(10, 1.5, NOW))
    _, found = await api.ask(BOOTSTRAP_TOKEN, "GET", "/v1/overview")
    assert found["behind_seconds"] == 1.5
    api.desk.follower = SimpleNamespace(lag=Lag(10, 1.5, NOW - 60_000))
    _, found = await api.ask(BOOTSTRAP_TOKEN, "GET", "/v1/overview")
    assert found["behind_seconds"] == 60.0


async def test_the_last_hour_has_a_value_for_each_minute(api: Api) -> None:
    fill_flow(api.desk.rows)
    for token, events in (
        (BOOTSTRAP_TOKEN, 3),
        (api.office.token("viewer", frozenset({"beta"})), 1),
    ):
        status, found = await api.ask(token, "GET", "/v1/overview/minutes")
        assert status == 200
        told = found["minutes"]
        assert (told["until"], told["seconds"]) == (rfc3339(NOW), 60)
        assert told["since"] == rfc3339(NOW // 60_000 * 60_000 - 59 * 60_000)
        assert {len(values) for values in told["series"].values()} == {60}
        assert told["series"]["events"] == [0] * 59 + [events]
        assert told["series"]["succeeded"] == [0] * 59 + [events]
        assert told["series"]["failed_attempts"] == [0] * 59 + [events]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "plans.sqlite")
    made.open_writer().close()
    yield made
    made.close()


OF_FEW_ROWS = (
    "held",
    "backlog",
    "tenants_pauses",
    "bulk_newest",
    "temp.covered",
    "CONSTANT ROW",
    "mark VIRTUAL TABLE",
)
"""Tables and indexes that are small, of however many tenants."""
OF_WAITING_ROWS = (
    "jobs_due",
    "jobs_ready",
    "jobs_running",
    "jobs_cut_off",
    "effects_unsettled",
    "effects_unsettled_of",
    "deliveries_due",
    "dead_letters_manual",
    "dead_letters_open",
    "dead_letters_to_replay",
    "quarantine_waiting",
    "endpoint_states_cut_off",
    "endpoint_states_failing",
)
"""Indexes of nothing but what waits."""


@pytest.mark.parametrize("tenants", [None, {"acme"}, {"acme", "beta"}, {str(n) for n in range(60)}])
def test_no_question_reads_more_than_what_waits(
    database: Database, tenants: set[str] | None
) -> None:
    def look(connection: sqlite3.Connection) -> list[str]:
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        flow_json(connection, minutes(connection, NOW, 60))
        attention_json(connection, BOOTSTRAP, TOPOLOGY)
        connection.set_trace_callback(None)
        asked = [each for each in statements if each.startswith("SELECT")]
        assert len(asked) > 10
        return [row[3] for sql in asked for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]

    steps = database.read(look, None if tenants is None else frozenset(tenants))
    read = {each for each in steps if each.startswith(("SCAN", "SEARCH")) and "(subq" not in each}
    assert sorted(each for each in read if not is_bounded(each, tenants is not None)) == []


def is_bounded(step: str, of_tenants: bool) -> bool:
    """Whether a step of a plan reads one row, few rows, or waiting rows of the reader's tenants."""
    terms = set(found[1].split(" AND ")) if (found := re.search(r"\((.+)\)$", step)) else set()
    if any(small in step for small in OF_FEW_ROWS) or terms & {"job_id=?", "replay_of=?", "id=?"}:
        return True
    index = found[1] if (found := re.search(r"INDEX (\w+)", step)) else ""
    if of_tenants and "tenant_id=?" not in terms:
        return False
    return index in OF_WAITING_ROWS or bool(terms - {"tenant_id=?"})

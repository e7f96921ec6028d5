"""A job that waits says why: its time, a person, what is missing, a reached cap, its turn."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.operator_cluster import make_job

from streams.api.jobs import table as jobs
from streams.api.read_model.database import Database
from streams.api.read_model.projections import Changes, project
from streams.api.rows.paging import PageQuery
from streams.limits.buckets import CIRCUIT
from streams.runtime.processor import Record
from streams.serde.codec import HELD, JOB
from streams.serde.job_states import JOB_STATES, JobState
from streams.serde.keys import held_key
from streams.serde.records import Held, Job, LimitKey, Parent, Wait
from streams.topology.breakers import Breaker
from streams.topology.limits import Limit, Scope
from streams.topology.load import load
from streams.topology.model import Topology

PARTITION = 3


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = Database(tmp_path / "m.sqlite").open_writer()
    yield opened
    opened.close()


def under(*limits: Limit) -> Topology:
    return replace(load(), limits=limits)


def fold(connection: sqlite3.Connection, *values: Job | Held, partition: int = PARTITION) -> None:
    batch: dict[str, Changes] = {}
    for value in values:
        if isinstance(value, Job):
            record = Record("jobs", partition, 0, 0, b"", JOB.encode(value))
        else:
            key = held_key(value.partition, value.pool, value.type, value.tenant_id)
            record = Record("jobs.held", partition, 0, 0, key, HELD.encode(value))
        project(record, batch)
    for changes in batch.values():
        changes.write(connection)


def waits(connection: sqlite3.Connection, topology: Topology, job_id: str = "job_a") -> Any:
    shown = jobs.shown_job(connection, job_id, topology)
    assert shown is not None
    return shown["why"]


def running(*names: str, **fields: Any) -> list[Job]:
    return [make_job(name, status="running", **fields) for name in names]


def test_a_cap_that_is_reached_is_named_with_what_fills_it(connection: sqlite3.Connection) -> None:
    fold(connection, make_job("job_a"), *running("r1", "r2"))
    told = waits(connection, under(Limit("per_tenant", "tenant", "*", 2)))
    assert told["reason"] == "cap"
    assert told["caps"] == [
        {
            "limit": "per_tenant",
            "scope": "tenant",
            "value": "acme",
            "per": None,
            "in_use": 2,
            "concurrency": 2,
            "held_by": ["r1", "r2"],
        }
    ]
    assert (
        "'per_tenant' lets 2 jobs of tenant 'acme' run at once, and 2 run (r1, r2)"
        in told["detail"]
    )


def test_a_cap_of_one_job_is_told_in_the_singular(connection: sqlite3.Connection) -> None:
    fold(connection, make_job("job_a"), *running("r1"))
    told = waits(connection, under(Limit("drafts", "job_type", "draft_*", 1, shared=False)))
    assert told["detail"] == (
        "limit 'drafts' lets one job of type 'draft_reply' in its partition run at a time, and "
        "one runs: this job starts when it ends; or raise the limit's concurrency"
    )


def test_a_cap_with_room_is_not_named(connection: sqlite3.Connection) -> None:
    fold(connection, make_job("job_a"), *running("r1"), *running("g1", "g2", tenant_id="globex"))
    told = waits(connection, under(Limit("per_tenant", "tenant", "*", 2)))
    assert (told["reason"], told["caps"]) == ("turn", [])
    assert "its place among the waiting jobs is not known" in told["detail"]


def test_a_last_place_that_may_be_kept_for_another_job_is_named(
    connection: sqlite3.Connection,
) -> None:
    limits = under(
        Limit("customers", "key", by="x", concurrency=2),
        Limit("reports", "key", by="y", concurrency=2),
        Limit("all", "global", concurrency=2),
    )
    keys = (LimitKey("customers", '"ann"'), LimitKey("reports", '"daily"'))
    fold(connection, make_job("job_a", limit_keys=keys))
    assert "may be kept" not in waits(connection, limits)["detail"]
    fold(connection, *running("r1", limit_keys=keys[:1]))
    told = waits(connection, limits)
    assert (told["reason"], told["caps"]) == ("turn", [])
    assert "the last place under 'customers' may be kept for a job" in told["detail"]


def test_caps_of_types_and_of_all_count_their_partition_alone(
    connection: sqlite3.Connection,
) -> None:
    limits = under(
        Limit("drafts", "job_type", "draft_*", 1, shared=False),
        Limit("all", "global", "*", 2, shared=False),
    )
    fold(connection, make_job("job_a"), *running("r1", tenant_id="globex"))
    fold(connection, *running("far1", "far2", "far3"), partition=PARTITION + 1)
    fold(connection, *running("r2", type="refund"))
    caps = {cap["limit"]: cap["in_use"] for cap in waits(connection, limits)["caps"]}
    assert caps == {"drafts": 1, "all": 2}


def test_shared_caps_count_what_runs_in_all_partitions(connection: sqlite3.Connection) -> None:
    limits = under(Limit("drafts", "job_type", "draft_*", 3), Limit("all", "global", "*", 9))
    fold(connection, make_job("job_a"), *running("r1", tenant_id="globex"))
    fold(connection, *running("far1", "far2"), partition=PARTITION + 1)
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    told = waits(connection, limits)
    connection.set_trace_callback(None)
    assert [(cap["limit"], cap["in_use"], cap["per"]) for cap in told["caps"]] == [
        ("drafts", 3, None)
    ]
    assert "lets 3 jobs of type 'draft_reply' run at once, and 3 run" in told["detail"]
    plans = [
        connection.execute(f"EXPLAIN QUERY PLAN {each}").fetchall()
        for each in statements
        if "count(*)" in each
    ]
    assert all("USING COVERING INDEX jobs_running" in plan[0][3] for plan in plans), plans


def test_a_job_without_a_permit_is_told_so(connection: sqlite3.Connection) -> None:
    fold(connection, make_job("job_a"))
    told = waits(connection, under(Limit("drafts", "job_type", "draft_*", 3)))
    assert told["reason"] == "turn"
    assert "and it may wait for a permit of 'drafts' from another partition" in told["detail"]


@pytest.mark.parametrize("scope", ["tenant", "job_type", "pool", "global"])
def test_what_fills_a_cap_is_counted_in_an_index_of_what_runs(
    connection: sqlite3.Connection, scope: Scope
) -> None:
    """A history of a million ended jobs costs the question nothing."""
    fold(connection, make_job("job_a"), *running("r1"))
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    limit = Limit("cap", scope, "*", 1, shared=False)
    assert waits(connection, under(limit))["reason"] == "cap"
    connection.set_trace_callback(None)
    (counting,) = [each for each in statements if "count(*)" in each]
    plan = connection.execute(f"EXPLAIN QUERY PLAN {counting}").fetchall()
    assert plan[0][3] == "SEARCH jobs USING COVERING INDEX jobs_running (part=?)"
    assert all(row[3].startswith(("SEARCH", "SCALAR SUBQUERY")) for row in plan)


def test_a_value_of_the_job_and_a_cap_of_each_tenant_are_named(
    connection: sqlite3.Connection,
) -> None:
    keys = (LimitKey("customers", '"ann"'),)
    fold(connection, make_job("job_a", limit_keys=keys))
    fold(connection, *running("r1", limit_keys=keys), *running("r2", tenant_id="globex"))
    told = waits(
        connection,
        under(
            Limit("customers", "key", "*", 1, by="input.customer"),
            Limit("drafts", "job_type", "*", 1, per="tenant"),
        ),
    )
    caps = {cap["limit"]: (cap["value"], cap["per"], cap["in_use"]) for cap in told["caps"]}
    assert caps == {"customers": ('"ann"', "tenant", 1), "drafts": ("draft_reply", "tenant", 1)}
    assert 'one job with the value "ann" of its tenant run' in told["detail"]
    assert "one job of type 'draft_reply' of its tenant run" in told["detail"]


def test_calls_that_fill_a_cap_of_a_tool_are_counted_each(connection: sqlite3.Connection) -> None:
    fold(connection, make_job("job_a", limit_keys=(LimitKey("mails", "email:send", ""),)))
    calls = tuple(LimitKey("mails", "email:send", f"clm_{number}") for number in range(2))
    fold(connection, *running("r1", limit_keys=calls), *running("r2"))
    told = waits(connection, under(Limit("mails", "tool", "email:*", 2)))
    (cap,) = told["caps"]
    assert (cap["scope"], cap["value"], cap["in_use"]) == ("tool", "email:send", 2)
    assert "lets 2 calls of tool 'email:send' run at once" in told["detail"]


def test_a_tool_that_fails_is_named_and_comes_before_full_slots(
    connection: sqlite3.Connection,
) -> None:
    held = Held(PARTITION, "default", "draft_reply", None, "no_slot", 1, 3, "start one")
    fold(connection, make_job("job_a", limit_keys=(LimitKey(CIRCUIT, "email:send", ""),)), held)
    told = waits(connection, replace(load(), breakers=(Breaker("*"),)))
    assert (told["reason"], "calls of tool 'email:send' failed" in told["detail"]) == (
        "circuit",
        True,
    )
    assert waits(connection, load())["reason"] == "no_slot", "no breaker is declared any more"


@pytest.mark.parametrize("reason", ["no_worker", "no_pool", "no_slot"])
def test_what_is_missing_comes_before_a_turn(connection: sqlite3.Connection, reason: Any) -> None:
    held = Held(
        PARTITION, "default", "draft_reply", None, reason, 1_700_000_000_000, 3, "start one"
    )
    fold(connection, make_job("job_a"), held)
    assert waits(connection, load()) == {
        "reason": reason,
        "since": "2023-11-14T22:13:20.000Z",
        "detail": "start one",
        "caps": [],
        "remedy": None,
    }


def test_its_own_cap_comes_before_full_slots_and_after_a_missing_worker(
    connection: sqlite3.Connection,
) -> None:
    limits = under(Limit("per_tenant", "tenant", "*", 1))
    for reason, told in (("no_slot", "cap"), ("no_worker", "no_worker")):
        held = Held(PARTITION, "default", "draft_reply", None, reason, 1, 3, "start one")  # type: ignore[arg-type]
        fold(connection, make_job("job_a"), *running("r1"), held)
        assert waits(connection, limits)["reason"] == told


def test_a_job_that_is_scheduled_says_until_when(connection: sqlite3.Connection) -> None:
    fold(connection, make_job("job_a", status="scheduled", next_retry_at=1_700_000_000_000))
    told = waits(connection, load())
    assert told["reason"] == "scheduled"
    assert "its next attempt starts at 2023-11-14T22:13:20.000Z" in told["detail"]


def test_a_job_in_review_names_the_call_that_lists_such_jobs(
    connection: sqlite3.Connection,
) -> None:
    fold(connection, make_job("job_a", status="needs_review"))
    told = waits(connection, load())
    assert told["detail"] == "a person has to say whether an effect was done"
    assert told["remedy"] == {"method": "GET", "path": "/v1/jobs?status=needs_review"}
    fold(connection, make_job("job_a", status="needs_review", diverged="mail:send/2"))
    assert "finished steps" in waits(connection, load())["detail"]


def test_a_job_that_asks_a_person_names_the_call_that_shows_its_approval(
    connection: sqlite3.Connection,
) -> None:
    wait = Wait("approval[refund]", "approval", 0, b"", group=0, approval_id="apr_1")
    fold(connection, make_job("job_a", status="waiting", waits=(wait,)))
    told = waits(connection, load())
    assert told["detail"] == "it waits for a person's answer to approval apr_1 (approval[refund])"
    assert told["remedy"] == {"method": "GET", "path": "/v1/approvals/apr_1"}


def test_a_job_of_a_disabled_tenant_names_the_call_that_enables_it(
    connection: sqlite3.Connection,
) -> None:
    held = Held(PARTITION, "default", "draft_reply", "acme", "tenant_disabled", 1, 3, "enable it")
    fold(connection, make_job("job_a"), held)
    assert waits(connection, load())["remedy"] == {"method": "PUT", "path": "/v1/tenants/acme"}


@pytest.mark.parametrize("state", JOB_STATES, ids=lambda state: state.name)
def test_a_job_says_why_it_waits_if_its_state_waits_for_something(
    connection: sqlite3.Connection, state: JobState
) -> None:
    fold(connection, make_job("job_a", status=state.name))
    assert (waits(connection, load()) is not None) == (state.waits_for is not None)


def test_a_list_tells_of_each_pending_job_why_it_waits_and_counts_a_cap_once(
    connection: sqlite3.Connection,
) -> None:
    topology = under(Limit("per_tenant", "tenant", "*", 2))
    fold(connection, make_job("job_a"), make_job("job_b"), *running("r1", "r2"))
    fold(connection, make_job("job_c", tenant_id="globex"))
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    page = jobs.jobs_page(connection, PageQuery(10), topology)
    connection.set_trace_callback(None)
    told = {each["job_id"]: each["why"] and each["why"]["reason"] for each in page.items}
    assert told == {"job_a": "cap", "job_b": "cap", "job_c": "turn", "r1": None, "r2": None}
    assert sum("count(*)" in each for each in statements) == 2, "one for each tenant"


def gathering(**fields: Any) -> Job:
    """A job that waits for the ten jobs of its gather."""
    wait = Wait("gather[all]", "gather", 0, b"", group=0, count=10)
    return make_job("job_p", status="waiting", waits=(wait,), **fields)


def gathered(n: int, status: Any, incarnation: int = 1, tenant_id: str = "acme") -> Job:
    """A job of that gather."""
    parent = Parent("job_p", incarnation, f"gather[all]/{n}", "gather[all]")
    return make_job(f"job_{n}", tenant_id, status=status, parent=parent, depth=1, workflow_id="w")


def test_a_job_that_gathers_others_says_how_far_they_are(connection: sqlite3.Connection) -> None:
    fold(connection, gathering(), gathered(0, "succeeded"), gathered(1, "failed"))
    fold(connection, gathered(2, "running"), gathered(3, "running", tenant_id="globex"))
    shown = jobs.shown_job(connection, "job_p", load())
    assert shown is not None
    (wait,) = shown["waits"]
    assert (wait["count"], wait["made"]) == (10, 3)
    assert wait["by_status"] == {"failed": 1, "running": 1, "succeeded": 1}
    assert shown["why"]["detail"] == (
        "it waits for jobs that it asked for (gather[all]): 3 of 10 are made, 2 of them have ended"
    )


def test_a_gather_counts_no_jobs_of_the_incarnation_before(connection: sqlite3.Connection) -> None:
    fold(connection, gathering(incarnation=2, continuations=1), gathered(0, "succeeded"))
    fold(connection, gathered(1, "running", incarnation=2))
    shown = jobs.shown_job(connection, "job_p", load())
    assert shown is not None
    assert (shown["waits"][0]["made"], shown["continuations"]) == (1, 1)


def test_a_job_tells_which_one_asked_for_it(connection: sqlite3.Connection) -> None:
    fold(connection, gathered(7, "pending"))
    shown = jobs.shown_job(connection, "job_7", load())
    assert shown is not None
    assert (shown["depth"], shown["workflow_id"]) == (1, "w")
    assert shown["parent"] == {
        "job_id": "job_p",
        "incarnation": 1,
        "call": "gather[all]/7",
        "gather": "gather[all]",
        "abandoned": False,
    }


def test_the_jobs_of_a_workflow_are_listed_by_their_own_index(
    connection: sqlite3.Connection,
) -> None:
    fold(connection, gathered(0, "succeeded"), gathered(1, "failed"), make_job("job_x"))
    fold(connection, gathered(2, "failed", tenant_id="globex"))
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    only = {"workflow_id": "w", "tenant_id": "acme", "status": "failed"}
    page = jobs.jobs_page(connection, PageQuery(9, None, only), load())
    connection.set_trace_callback(None)
    assert [each["job_id"] for each in page.items] == ["job_1"]
    (plan,) = connection.execute(f"EXPLAIN QUERY PLAN {statements[0]}").fetchall()
    assert "jobs_of_workflow (workflow_id=?)" in plan[3]

"""Limits that a tenant has of its own: they hold from the moment that they are set."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.dispatching import Desk, ScriptedWorker

from streams.topology.limits import Limit

REFUNDS = {"name": "refunds", "scope": "job_type", "match": "refund", "concurrency": 1}
CUSTOMERS = {"name": "customers", "scope": "key", "by": "input.customer", "concurrency": 1}
ALL = {"name": "all", "scope": "tenant", "concurrency": 2}


def running(desk: Desk, *job_ids: str) -> set[str]:
    return {job_id for job_id in job_ids if desk.job(job_id).status == "running"}


def submit(desk: Desk, *job_ids: str, tenant: str = "acme", customer: Any = None) -> None:
    body = json.dumps({"customer": customer})
    for job_id in job_ids:
        desk.submit(job_id, "refund", tenant=tenant, input=body)


def end(desk: Desk, worker: ScriptedWorker, job_id: str) -> None:
    worker.end(desk.lease(job_id), "succeeded")


@pytest.mark.parametrize(
    "limit",
    [
        REFUNDS,
        ALL | {"concurrency": 1},
        {"name": "pool", "scope": "pool", "match": "def*", "concurrency": 1},
        CUSTOMERS,
    ],
)
def test_it_counts_the_jobs_of_its_tenant_alone(limit: dict[str, Any]) -> None:
    desk = Desk()
    desk.tenant(limits=[limit])
    worker = ScriptedWorker(desk)
    submit(desk, "a1", "a2")
    submit(desk, "g1", "g2", tenant="globex")
    worker.heartbeat()
    desk.driver.advance(0.2)
    assert running(desk, "a1", "a2", "g1", "g2") == {"a1", "g1", "g2"}
    end(desk, worker, "a1")
    assert running(desk, "a2") == {"a2"}


@pytest.mark.parametrize("limit", [REFUNDS, ALL | {"concurrency": 1}, CUSTOMERS])
def test_what_runs_is_counted_by_it_at_once_and_its_end_leaves_room(limit: dict[str, Any]) -> None:
    desk = Desk()
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    submit(desk, "a1", "a2")
    desk.tenant(limits=[limit])
    submit(desk, "a3")
    desk.driver.advance(1)
    assert running(desk, "a1", "a2", "a3") == {"a1", "a2"}
    end(desk, worker, "a1")
    desk.driver.advance(1)
    assert running(desk, "a3") == set()
    end(desk, worker, "a2")
    desk.driver.advance(1)
    assert running(desk, "a3") == {"a3"}


@pytest.mark.parametrize("limit", [REFUNDS, ALL | {"concurrency": 1}, CUSTOMERS])
def test_what_waits_goes_on_when_it_is_removed_or_raised(limit: dict[str, Any]) -> None:
    desk = Desk()
    desk.tenant(limits=[limit])
    ScriptedWorker(desk).heartbeat()
    submit(desk, "a1", "a2", "a3", "a4")
    desk.driver.advance(0.2)
    assert running(desk, "a1", "a2", "a3", "a4") == {"a1"}
    desk.tenant(limits=[limit | {"concurrency": 2}])
    desk.driver.advance(1)
    assert running(desk, "a1", "a2", "a3", "a4") == {"a1", "a2"}
    desk.tenant()
    desk.driver.advance(1)
    assert running(desk, "a1", "a2", "a3", "a4") == {"a1", "a2", "a3", "a4"}


@pytest.mark.parametrize("limit", [REFUNDS, CUSTOMERS])
def test_jobs_that_were_ready_before_it_are_set_aside_by_it(limit: dict[str, Any]) -> None:
    desk = Desk()
    worker = ScriptedWorker(desk, slots=3)
    submit(desk, "a1", "a2", "a3")
    desk.submit("draft", input='{"customer": 7}')
    desk.tenant(limits=[limit])
    worker.heartbeat()
    desk.driver.advance(1)
    assert running(desk, "a1", "a2", "a3", "draft") == {"a1", "draft"}


def test_it_replaces_the_topologys_limit_of_its_name_for_its_tenant() -> None:
    desk = Desk(Limit("each", "tenant", concurrency=1))
    desk.tenant(limits=[ALL | {"name": "each"}])
    ScriptedWorker(desk).heartbeat()
    submit(desk, "a1", "a2", "a3")
    submit(desk, "g1", "g2", tenant="globex")
    assert running(desk, "a1", "a2", "a3", "g1", "g2") == {"a1", "a2", "g1"}
    desk.tenant()
    desk.driver.advance(1)
    assert running(desk, "a1", "a2", "a3") == {"a1", "a2"}


def test_it_does_not_replace_a_limit_of_all_tenants_together() -> None:
    desk = Desk(Limit("refunds", "job_type", "refund", concurrency=1))
    desk.tenant(limits=[REFUNDS | {"concurrency": 5}])
    ScriptedWorker(desk).heartbeat()
    submit(desk, "a1", "a2")
    assert running(desk, "a1", "a2") == {"a1"}


def test_it_holds_beside_the_topologys() -> None:
    desk = Desk(Limit("each", "tenant", concurrency=2))
    desk.tenant(limits=[CUSTOMERS])
    ScriptedWorker(desk).heartbeat()
    submit(desk, "a1", "a2", customer="ann")
    submit(desk, "b1", customer="bob")
    submit(desk, "c1", customer="cy")
    desk.driver.advance(0.2)
    assert running(desk, "a1", "a2", "b1", "c1") == {"a1", "b1"}


@pytest.mark.parametrize("keep_state", [True, False])
@pytest.mark.parametrize("limit", [REFUNDS, ALL | {"concurrency": 1}, CUSTOMERS])
def test_a_restart_keeps_it(limit: dict[str, Any], keep_state: bool) -> None:
    desk = Desk()
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    desk.tenant(limits=[limit])
    submit(desk, "a1", "a2", "a3")
    desk.driver.advance(0.2)
    desk.driver.restart("dispatcher", keep_state=keep_state)
    desk.driver.advance(0.5)
    worker.heartbeat(desk.lease("a1"))
    desk.driver.advance(1)
    assert running(desk, "a1", "a2", "a3") == {"a1"}
    end(desk, worker, "a1")
    assert running(desk, "a1", "a2", "a3") == {"a2"}


@pytest.mark.parametrize("limit", [REFUNDS, ALL | {"concurrency": 1}, CUSTOMERS])
def test_an_undone_change_counts_as_before(limit: dict[str, Any]) -> None:
    desk = Desk()
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    submit(desk, "a1", "a2")
    with desk.held_back():
        desk.tenant(limits=[limit])
        desk.replay("job_new", "job_gone")
        desk.tenant()
    submit(desk, "a3")
    desk.driver.advance(1)
    assert running(desk, "a1", "a2", "a3") == {"a1", "a2", "a3"}
    for job_id in ("a1", "a2", "a3"):
        end(desk, worker, job_id)


def test_its_rate_lets_one_start_at_each_token() -> None:
    desk = Desk()
    ScriptedWorker(desk).heartbeat()
    desk.tenant(limits=[{"name": "paced", "scope": "job_type", "match": "*", "rate": "60/min"}])
    submit(desk, "a1", "a2", "a3")
    submit(desk, "g1", "g2", tenant="globex")
    assert running(desk, "a1", "a2", "a3", "g1", "g2") == {"a1", "g1", "g2"}
    desk.driver.advance(1.1)
    assert running(desk, "a1", "a2", "a3") == {"a1", "a2"}
    desk.driver.restart("dispatcher", keep_state=True)
    desk.driver.advance(0.5)
    ScriptedWorker(desk).heartbeat()
    assert running(desk, "a1", "a2", "a3") == {"a1", "a2"}
    desk.tenant()
    desk.driver.advance(0.5)
    assert running(desk, "a3") == {"a3"}


def test_a_sweep_that_is_under_way_begins_anew_for_it() -> None:
    """Jobs that the round had passed already kept the values of before."""
    desk = Desk()
    with desk.held_back():
        submit(desk, *(f"j{number:04}" for number in range(900)), customer="ann")
    desk.deploy(limits=(Limit("other", "key", by="input.x", concurrency=900),))
    desk.driver.advance(0.3)
    desk.tenant(limits=[CUSTOMERS])
    desk.driver.advance(20)
    keys = {each.limit for each in desk.job("j0000").limit_keys}
    assert keys == {"other", "customers"}


def test_a_record_with_limits_that_cannot_be_leaves_the_tenant_without() -> None:
    desk = Desk()
    desk.tenant(limits=[REFUNDS | {"scope": "global"}])
    ScriptedWorker(desk).heartbeat()
    submit(desk, "a1", "a2")
    assert running(desk, "a1", "a2") == {"a1", "a2"}


def test_a_limit_of_a_tenant_replaces_one_that_counts_its_calls() -> None:
    desk = Desk(Limit("mails", "tool", "email:*", per="tenant", concurrency=5))
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    own = {"name": "mails", "scope": "job_type", "match": "refund", "concurrency": 1}
    desk.tenant(limits=[own])
    leases = [desk.lease(desk.event(key)) for key in ("t1", "t2")]
    assert [worker.claim(lease).kind for lease in leases] == ["granted", "granted"]

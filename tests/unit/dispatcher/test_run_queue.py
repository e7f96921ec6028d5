"""The run queue alone: pools, caps and tenants that are blocked."""

from __future__ import annotations

import dataclasses

import pytest

from streams.dispatcher.active_leases import ActiveLease
from streams.dispatcher.jobs import FIRST, begun, from_submission
from streams.dispatcher.run_queue import RunQueue, _taken_up
from streams.dispatcher.worker_registry import WorkerRegistry
from streams.serde.records import Command, Handler, Heartbeat, Job, Submit
from streams.topology.load import load
from streams.topology.model import JobType, Limit, Topology

TOPOLOGY = dataclasses.replace(
    load(),
    pools=("default", "big"),
    job_types={"render": JobType("render", pool="big")},
    limits=(Limit("each", "tenant", "*", 1),),
)
DRAFT = Handler("draft", 3, (), 60)
RENDER = Handler("render", 3, (), 60)


def run_queue(topology: Topology = TOPOLOGY) -> RunQueue:
    made = RunQueue(topology, WorkerRegistry(topology.leases))
    for pool, handler in (("default", DRAFT), ("big", RENDER)):
        heartbeat = Heartbeat(f"{pool}/1", pool, 0, 9, (), (handler,))
        made.registry.heard(heartbeat, "h", 0)
    return made


def job(id_: str, type_: str = "draft", tenant: str = "acme") -> Job:
    submit = Submit(type_, "{}", None, None, None, None, None, None, b"", None)
    command = Command("c", tenant, id_, 0, 0, submit)
    return from_submission(command, submit, TOPOLOGY, place=FIRST, at=0, now=0)


def lease_out(made: RunQueue, jobs: dict[str, Job], closed: tuple[str, ...] = ()) -> list[str]:
    """Grant whatever can be granted; the ids."""
    granted = []
    for entry, worker in made.takeable(0, 0, closed):
        granted.append(entry.job_id)
        one = begun(jobs[entry.job_id], "run", worker.worker_id, DRAFT, 0)
        made.grant(one, worker)
    return granted


def test_a_tenants_cap_holds_over_all_pools() -> None:
    jobs = {one.job_id: one for one in (job("a"), job("b", "render"), job("c", "render", "other"))}
    made = run_queue()
    for one in jobs.values():
        made.ready(one)
    assert lease_out(made, jobs) == ["a", "c"]
    made.off("a")
    assert lease_out(made, jobs) == ["b"]


def test_a_blocked_tenants_jobs_wait_in_every_pool() -> None:
    jobs = {one.job_id: one for one in (job("a"), job("b", "render", "other"))}
    made = run_queue()
    made.block("other")
    for one in jobs.values():
        made.ready(one)
    made.block("acme")
    assert lease_out(made, jobs) == []
    made.unblock("other")
    assert lease_out(made, jobs) == ["b"]


def test_a_closed_pool_gets_nothing_and_loses_nothing() -> None:
    jobs = {one.job_id: one for one in (job("a"), job("b", "render", "other"))}
    made = run_queue()
    for one in jobs.values():
        made.ready(one)
    assert lease_out(made, jobs, ("default",)) == ["b"]
    assert lease_out(made, jobs) == ["a"]
    assert (made.depth(), made.oldest(), made.waiting()) == (0, None, {})


def test_a_type_at_its_cap_starves_nobody_and_asks_for_no_credits() -> None:
    limits = (Limit("drafts", "job_type", "draft", 1),)
    made = run_queue(dataclasses.replace(TOPOLOGY, limits=limits))
    jobs = {one.job_id: one for one in (job("a"), job("b"), job("c", "render"))}
    for one in jobs.values():
        made.ready(one)
    assert lease_out(made, jobs) == ["a", "c"]
    assert made.starving("default") == set()
    made.registry.announced("default/1", 0, 1)
    made.off("a")
    assert made.starving("default") == {"draft"}


def test_jobs_that_nobody_handles_are_counted_by_pool_and_type() -> None:
    made = run_queue()
    for number in range(3):
        made.ready(job(f"u{number}", "unknown"))
    assert lease_out(made, {}) == []
    assert made.waiting() == {("default", "unknown"): 3}
    assert made.starving("default") == set()


def test_the_jobs_of_a_pool_are_counted_without_a_look_at_each_tenant() -> None:
    made = run_queue()
    for number in range(50):
        made.ready(job(f"a{number}", tenant=f"tenant{number}"))
        made.ready(job(f"b{number}", tenant=f"tenant{number}"))
    asked: list[str] = []
    made._room = lambda tenant_id: asked.append(tenant_id) or 0  # type: ignore[method-assign,func-returns-value]
    assert made.jobs_of("default") == 50, "each tenant may have one running"
    assert asked == []


@pytest.mark.parametrize("confirmed", [True, False])
def test_that_a_worker_went_on_without_a_run_is_known_after_an_abort_as_well(
    confirmed: bool,
) -> None:
    lease = ActiveLease("j", 1, "w/b1", "acme", "t", "default", 30.0, dropped=True)
    _taken_up(lease, confirmed=confirmed)
    assert lease.dropped == confirmed

"""A route's priority by a value of the event, within the declared levels."""

from __future__ import annotations

from dataclasses import replace

from support.flow_control import ROUTE, deploy, event, leased, started, worker

from streams.topology.flow_control import PriorityBy

BY_PLAN = PriorityBy(
    "attributes.plan", (("enterprise", "interactive"), ("free", "batch")), "webhook"
)


def test_the_value_decides_who_goes_first_and_an_unknown_one_is_as_any() -> None:
    desk = started(routes=(replace(ROUTE, priority_by=BY_PLAN),))
    free, unknown = event(desk, "e1", plan="free"), event(desk, "e2", plan="pro")
    without, paid = event(desk, "e3"), event(desk, "e4", plan="enterprise")
    assert [desk.job(job_id).priority for job_id in (free, unknown, without, paid)] == [
        "batch",
        "webhook",
        "webhook",
        "interactive",
    ]
    worker(desk).heartbeat()
    assert leased(desk) == [paid, unknown, without, free]


def test_a_waiting_job_follows_a_changed_rule() -> None:
    desk = started(routes=(ROUTE,))
    job_id = event(desk, "e1", plan="enterprise")
    assert desk.job(job_id).priority == "webhook"
    deploy(desk, routes=(replace(ROUTE, priority_by=BY_PLAN),))
    assert desk.job(job_id).priority == "interactive"

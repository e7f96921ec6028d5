"""Shared limits in partitions that have more jobs than workers, or than places of other limits."""

from __future__ import annotations

import pytest
from support.shared_limits import Floor, Place

from streams.topology.limits import Limit

REFUNDS = Limit("refunds", "job_type", "refund", 5)
ANN = Limit("customers", "key", "ann", 2, by="input.customer", shared=True)
FULL = (
    Limit("per_tenant", "tenant", "*", 2),
    Limit("all", "global", "*", 2),
    Limit("here", "pool", "*", 2, shared=False),
)


def backlog(floor: Floor, type_: str, **fields: str) -> str:
    """A partition has two jobs that run, one more to look at, and many behind it."""
    place = floor.places[0]
    place.submit_some(2)
    floor.pass_time(1)
    (name,) = place.submit_some(1, type_, **fields)
    floor.pass_time(1)
    place.submit_some(30)
    floor.pass_time(1)
    return name


def has_started(floor: Floor, place: Place, name: str) -> bool:
    """Whether a job starts while others end, one each second."""
    for _ in range(5):
        ended = next(job_id for job_id in place.running() if job_id != name)
        place.end(ended)
        floor.pass_time(1)
        if name in place.running():
            return True
    return False


@pytest.mark.parametrize("full", FULL, ids=lambda limit: limit.name)
@pytest.mark.parametrize(
    ("shared", "type_", "body"),
    [(REFUNDS, "refund", "{}"), (ANN, "draft_reply", '{"customer": "ann"}')],
    ids=["type", "key"],
)
def test_the_oldest_job_starts_though_another_limit_is_full(
    full: Limit, shared: Limit, type_: str, body: str
) -> None:
    floor = Floor(shared, full)
    name = backlog(floor, type_, input=body)
    assert has_started(floor, floor.places[0], name)


def test_the_oldest_job_of_a_key_starts_though_all_workers_are_busy() -> None:
    floor = Floor(ANN)
    place = floor.places[0]
    place.worker.slots = 2
    place.submit_some(2)
    floor.pass_time(1)
    place.worker.slots = 0
    (name,) = place.submit_some(1, input='{"customer": "ann"}')
    floor.pass_time(1)
    place.submit_some(30)
    floor.pass_time(1)
    for _ in range(5):
        ended = next(job_id for job_id in place.running() if job_id != name)
        place.worker.end(place.lease(ended), "succeeded", free=1)
        floor.pass_time(1)
        if name in place.running():
            return
    raise AssertionError("it never starts")


def test_a_permit_that_waits_for_other_places_goes_round() -> None:
    floor = Floor(Limit("refunds", "job_type", "refund", 1), FULL[0])
    name = backlog(floor, "refund")
    other = floor.places[1]
    other.submit_some(9, "refund")
    done = 0
    for _ in range(9):
        floor.pass_time(1)
        done += other.end_all()
    assert done >= 4
    assert floor.places[0].job(name).status == "pending"


@pytest.mark.parametrize(
    ("scope", "value"), [("tenant", "tenant0"), ("job_type", "refund"), ("pool", "default")]
)
@pytest.mark.parametrize("shared", [REFUNDS, ANN], ids=lambda limit: limit.name)
def test_jobs_that_are_paused_keep_no_permit(shared: Limit, scope: str, value: str) -> None:
    floor = Floor(shared, FULL[0])
    place = floor.places[0]
    place.submit_some(5, "refund", input='{"customer": "ann"}')
    floor.pass_time(1)
    assert len(place.running()) == 2
    place.stop(scope, value)
    place.end_all()
    floor.pass_time(2)
    assert not floor.rows()


def test_a_long_job_does_not_keep_a_partition_from_a_permit_that_lies_idle() -> None:
    floor = Floor(Limit("refunds", "job_type", "refund", 2), Limit("own", "tenant", "tenant2", 1))
    long, late, blocked = floor.places
    blocked.submit_some(1)
    floor.pass_time(1)
    blocked.submit_some(1, "refund")
    floor.pass_time(1)
    long.submit_some(3, "refund")
    floor.pass_time(1)
    late.submit_some(1, "refund")
    for _ in range(60):
        floor.pass_time(1)
        if late.running():
            return
    raise AssertionError("it never starts, though a place is free")


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_idle_permit_changes_hands_though_several_partitions_have_long_jobs(jobs: int) -> None:
    limits = Limit("refunds", "job_type", "refund", 3), Limit("own", "tenant", "tenant7", 1)
    floor = Floor(*limits, partitions=8)
    late, blocked = floor.places[1], floor.places[7]
    blocked.submit_some(1)
    floor.pass_time(1)
    blocked.submit_some(1, "refund")
    floor.pass_time(1)
    for number in (0, 5):
        floor.places[number].submit_some(jobs, "refund")
    floor.pass_time(1)
    late.submit_some(1, "refund")
    for _ in range(80):
        floor.pass_time(1)
        if late.running():
            return
    raise AssertionError("it does not start, though a place is free")

"""Rates that all partitions share: no window has more starts than its budget, and it is used."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from support.shared_limits import Floor

from streams.topology.limits import Limit, Rate

CALLS = Limit("calls", "job_type", "draft_reply", rate=Rate(10, 1))
SLOW = replace(CALLS, rate=Rate(40, 60))
BY_KEY = Limit("keys", "key", by="input.customer", rate=Rate(2, 1), shared=True)


def starts(floor: Floor) -> list[int]:
    """When jobs started, in milliseconds, in order."""
    return sorted(lease.granted_at for lease in floor.places[0].leases())


def check(found: list[int], burst: int, a_second: float) -> None:
    for first, at in enumerate(found):
        for last in range(first, len(found)):
            seconds = (found[last] - at) / 1000
            assert last - first + 1 <= burst + a_second * seconds + 1e-6


def test_a_rate_holds_over_all_partitions_and_is_used() -> None:
    floor = Floor(CALLS)
    for place in floor.places:
        place.submit_some(80)
    began = floor.driver.now
    for _ in range(100):
        floor.pass_time(0.1)
    found = starts(floor)
    check(found, 11, 10)
    assert len([at for at in found if at >= began]) >= 85
    each = [len(place.running()) for place in floor.places]
    assert min(each) >= 0.2 * sum(each), "the partitions get tokens in turn"


def test_a_slow_rate_goes_round_and_a_job_starts_at_its_token() -> None:
    floor = Floor(Limit("slow", "global", rate=Rate(6, 60)))
    for place in floor.places:
        place.submit_some(5)
    for _ in range(650):
        floor.pass_time(0.1)
    found = starts(floor)
    check(found, 2, 0.1)
    assert len(found) == 7
    gaps = [later - earlier for earlier, later in pairwise(found)]
    assert max(gaps) <= 10_500
    assert all(len(place.running()) >= 2 for place in floor.places)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "limit", [CALLS, replace(CALLS, rate=Rate(40, 60))], ids=["10/s", "40/min"]
)
def test_no_window_has_more_starts_over_crashes_restarts_and_repeated_reading(
    seed: int, limit: Limit
) -> None:
    chance, floor = random.Random(seed), Floor(limit)
    for place in floor.places:
        place.submit_some(60)
    for _ in range(60):
        floor.pass_time(chance.choice((0.1, 0.2, 0.5)))
        match chance.randrange(9):
            case 0:
                floor.restart(keep_state=chance.random() < 0.5)
                floor.driver.advance(0.3)
            case 1:
                point: Any = chance.choice(("produced", "before_commit", "after_commit"))
                floor.driver.crash("dispatcher", point, chance.randrange(1, 4))
            case 2:
                floor.again(chance.choice(("limits.claims", "limits.grants")))
            case 3:
                chance.choice(floor.places).worker.slots = chance.choice((0, 100))
    assert limit.rate is not None
    check(starts(floor), limit.most_at_once, 1 / limit.rate.interval)
    assert len(starts(floor)) >= (20 if limit is CALLS else 4)


def test_a_value_of_a_key_has_its_rate_over_all_tenants() -> None:
    floor = Floor(BY_KEY)
    for place in floor.places:
        place.submit_some(10, input=json.dumps({"customer": "ann"}))
        place.submit_some(1, input=json.dumps({"customer": f"only {place.partition}"}))
    for _ in range(50):
        floor.pass_time(0.1)
    total = len(starts(floor)) - 3
    assert 9 <= total <= 3 + 2 * 5.5


def test_a_rate_and_a_cap_of_one_limit_both_hold() -> None:
    floor = Floor(Limit("both", "job_type", "*", 2, rate=Rate(20, 1), burst=31))
    for place in floor.places:
        place.submit_some(30)
    for _ in range(40):
        floor.pass_time(0.1)
        assert floor.running().total() <= 2
        floor.places[0].end_all()
        floor.places[1].end_all()
        floor.places[2].end_all()
    check(starts(floor), 31, 20)
    assert len(starts(floor)) >= 40


def test_a_rate_that_is_not_shared_holds_in_each_partition() -> None:
    floor = Floor(Limit("apart", "global", rate=Rate(1, 60), shared=False))
    for place in floor.places:
        place.submit_some(3)
    floor.pass_time(1)
    assert floor.running() == {0: 1, 1: 1, 2: 1}
    assert not floor.driver.output("limits.claims")


TWO = Rate(2, 1)
ANN = Limit("ann", "key", "ann", by="input.customer", rate=TWO, shared=True)
OF_ANN = json.dumps({"customer": "ann"})


@pytest.mark.parametrize("limit", [Limit("all", "global", rate=TWO), ANN], ids=lambda it: it.name)
@pytest.mark.parametrize("lacks", ["worker", "place"])
def test_a_partition_whose_jobs_cannot_start_leaves_the_starts_to_others(
    limit: Limit, lacks: str
) -> None:
    floor = Floor(
        limit, Limit("own", "tenant", "tenant0", concurrency=1 if lacks == "place" else 99)
    )
    full, free = floor.places[:2]
    full.submit_some(1, input=OF_ANN)
    floor.pass_time(1)
    full.worker.slots = 0 if lacks == "worker" else 100
    floor.beat()
    full.submit_some(20, input=OF_ANN)
    free.submit_some(90, input=OF_ANN)
    floor.pass_time(1)
    before = len(free.running())
    for _ in range(200):
        floor.pass_time(0.1)
    assert len(full.running()) == 1
    assert len(free.running()) - before >= 0.85 * 2 * 20


@pytest.mark.parametrize("rate", [Rate(6, 60), Rate(10, 1)], ids=str)
def test_a_job_gets_its_start_and_a_worker_though_all_workers_are_busy(rate: Rate) -> None:
    floor = Floor(replace(ANN, rate=rate))
    place = floor.places[0]
    place.worker.slots = 2
    place.submit_some(2)
    floor.pass_time(1)
    place.worker.slots = 0
    (name,) = place.submit_some(1, input=OF_ANN)
    floor.pass_time(1)
    place.submit_some(30)
    floor.pass_time(3)
    for _ in range(6):
        ended = next(job_id for job_id in place.running() if job_id != name)
        place.worker.end(place.lease(ended), "succeeded", free=1)
        if name in place.running():
            return
        floor.pass_time(5)
    raise AssertionError("it never starts")


def test_a_start_of_a_slow_rate_may_be_used_until_the_next_one_could_be_granted() -> None:
    floor = Floor(Limit("slow", "global", rate=Rate(6, 60)))
    place = floor.places[0]
    place.worker.slots = 0
    place.submit_some(3)
    floor.pass_time(5)
    place.worker.slots = 100
    floor.pass_time(0.1)
    assert len(place.running()) == 1
    floor.pass_time(30)
    check(starts(floor), 2, 0.1)


def test_a_start_that_a_worker_refused_is_used_by_the_next_lease() -> None:
    floor = Floor(Limit("slow", "global", rate=Rate(1, 3600)))
    place = floor.places[0]
    (name,) = place.submit_some(1)
    floor.pass_time(1)
    refused = place.lease(name)
    place.worker.decline(refused)
    floor.pass_time(1)
    assert place.lease(name).epoch == refused.epoch + 1
    place.submit_some(1)
    floor.pass_time(60)
    assert place.running() == [name], "there was one start, and not two"


def test_what_owners_keep_of_rates_is_forgotten() -> None:
    floor = Floor(BY_KEY)
    for number in range(40):
        floor.places[0].submit_some(1, input=json.dumps({"customer": number}))
    for _ in range(30):
        floor.pass_time(0.1)
    assert len(starts(floor)) == 40
    floor.pass_time(5)
    for place in floor.places:
        assert not list(floor.store(place.partition).range(b"L", b"M"))

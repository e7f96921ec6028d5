"""Limits that all partitions share: permits move, and no more run than the cap says."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import REGISTRY
from support.permit_faults import FAULTS
from support.shared_limits import Broken, Floor, Place

from streams.runtime.memory_broker import CrashPoint
from streams.serde.codec import LIMIT_CLAIM
from streams.serde.records import Reply
from streams.topology.limits import Limit

DRAFTS = Limit("drafts", "job_type", "draft_reply", 4)
ONE = Limit("one", "global", "*", 1)
CUSTOMER = Limit("customers", "key", "*", 2, by="input.customer", shared=True)


def turn(floor: Floor, seconds: float = 0.1) -> Counter[int]:
    """All that runs ends; what ended, by partition."""
    found = Counter({place.partition: place.end_all() for place in floor.places})
    floor.pass_time(seconds)
    return found


def test_no_more_run_over_all_partitions_than_the_cap_and_each_has_its_share() -> None:
    floor = Floor(DRAFTS)
    for place in floor.places:
        place.submit_some(20)
    floor.pass_time(3)
    assert floor.running().total() == 4
    done: Counter[int] = Counter()
    for _ in range(3):
        done += turn(floor)
    assert sorted(floor.running().values()) == [1, 1, 2]
    for _ in range(60):
        done += turn(floor)
    assert done == {0: 20, 1: 20, 2: 20}


def test_a_partition_that_is_busy_alone_uses_the_whole_cap_at_once() -> None:
    floor = Floor(Limit("drafts", "job_type", "*", 40))
    busy = floor.places[1]
    busy.submit_some(200)
    floor.pass_time(1)
    assert len(busy.running()) == 40


@pytest.mark.parametrize("limit", [DRAFTS, ONE, CUSTOMER], ids=lambda limit: limit.name)
def test_permits_that_nobody_uses_go_back_and_leave_no_rows(limit: Limit) -> None:
    floor = Floor(limit)
    for place in floor.places:
        place.submit_some(3, input=json.dumps({"customer": "ann"}))
    floor.pass_time(1)
    while floor.running().total():
        turn(floor, 1)
    floor.pass_time(2)
    assert not floor.rows()


def test_a_partition_that_comes_later_gets_its_share_as_places_become_free() -> None:
    floor = Floor(DRAFTS)
    early, late = floor.places[0], floor.places[2]
    early.submit_some(50)
    floor.pass_time(1)
    late.submit_some(50)
    floor.pass_time(1)
    assert floor.running() == {0: 4, 1: 0, 2: 0}, "nothing is taken from what runs"
    early.end_all(1)
    floor.pass_time(0.1)
    early.end_all(1)
    floor.pass_time(0.1)
    assert floor.running() == {0: 2, 1: 0, 2: 2}
    turn(floor)
    assert floor.running() == {0: 2, 1: 0, 2: 2}, "the shares are even, and stay so"


def test_one_place_goes_round_among_all_partitions() -> None:
    floor = Floor(ONE)
    for place in floor.places:
        place.submit_some(30)
    floor.pass_time(1)
    had: Counter[int] = Counter()
    for _ in range(12):
        had += turn(floor, 1.1)
    assert min(had[partition] for partition in range(3)) >= 2
    assert had.total() >= 10, "and it does not lie idle"


def test_keys_are_counted_over_all_tenants_if_they_are_shared() -> None:
    floor = Floor(CUSTOMER)
    for place in floor.places:
        place.submit_some(3, input=json.dumps({"customer": "ann"}))
    floor.places[0].submit_some(1, input=json.dumps({"customer": "*:" + "é" * 2_000}))
    floor.pass_time(2)
    assert floor.running().total() == 3, "two for ann, and one for the other"


def test_a_job_that_needs_two_shared_places_is_not_passed_over_for_ever() -> None:
    left = Limit("left", "key", "*", 1, by="input.left", shared=True)
    right = Limit("right", "key", "*", 1, by="input.right", shared=True)
    floor = Floor(left, right)
    (both,) = floor.places[0].submit_some(1, input='{"left": 1, "right": 1}')
    others = (
        (floor.places[1], '{"left": 1, "right": %d}'),
        (floor.places[2], '{"left": %d, "right": 1}'),
    )
    for number in range(2, 82):
        for place, body in others:
            place.submit_some(1, input=body % number)
        floor.pass_time(0.5)
        for place, _ in others:
            place.end_all()
        if both in floor.places[0].running():
            return
    raise AssertionError("it never starts")


def claim(place: Place, job_id: str) -> Reply:
    """What a partition answers to a claim of a job that runs."""
    place.worker.claim(place.lease(job_id))
    return place.replies()[-1]


def test_calls_of_a_tool_are_counted_over_all_partitions() -> None:
    floor = Floor(Limit("mails", "tool", "email:*", 1))
    one, other = floor.places[:2]
    jobs = [place.submit_some(1)[0] for place in (one, other)]
    floor.pass_time(0.3)
    for place, job_id in zip((one, other), jobs, strict=True):
        assert claim(place, job_id).kind == "full", "no partition holds the permit yet"
        told: dict[str, Any] = {"result": '["email:send",null]', "error": "no room", "free": 100}
        place.worker.end(place.lease(job_id), "full", **told)
        floor.pass_time(0.5)
    granted = claim(one, jobs[0])
    assert granted.kind == "granted"
    assert not other.running(), "the second job waits without a slot"
    one.worker.outcome(one.lease(jobs[0]), granted, "done", "1")
    floor.pass_time(2)
    assert claim(other, jobs[1]).kind == "granted"
    assert one.running() == [jobs[0]], "its call holds no place any more"


def waiting_for_calls(floor: Floor, place: Place, jobs: int) -> list[str]:
    """Jobs that wait for their calls of a tool, since their first runs found no room."""
    names = place.submit_some(jobs)
    floor.pass_time(0.3)
    for job_id in names:
        assert claim(place, job_id).kind == "full"
        told: dict[str, Any] = {"result": '["email:send",null]', "error": "no room", "free": 100}
        place.worker.end(place.lease(job_id), "full", **told)
    return names


def test_a_partition_that_made_calls_leaves_all_permits_to_one_that_lacks_some() -> None:
    floor = Floor(Limit("mails", "tool", "email:*", 4))
    first, second = floor.places[:2]
    names = waiting_for_calls(floor, first, 2)
    floor.pass_time(0.5)
    for job_id in names:
        first.worker.outcome(first.lease(job_id), claim(first, job_id), "done", "1")
    floor.pass_time(1)
    assert floor.rows(), "permits of calls stay for a while"
    names = waiting_for_calls(floor, second, 4)
    floor.pass_time(0.5)
    assert second.running() == names


def test_a_return_that_its_topic_has_lost_is_repeated() -> None:
    floor = Floor(DRAFTS)
    holder, other = floor.places[:2]
    holder.submit_some(4)
    floor.pass_time(1)
    with floor.losing("limits.claims"):
        holder.end_all(2)
        floor.pass_time(1)
    other.submit_some(4)
    floor.pass_time(28)
    assert not other.running()
    floor.pass_time(5)
    assert len(other.running()) == 2
    floor.pass_time(60)
    sent = len(floor.driver.output("limits.claims"))
    floor.pass_time(120)
    assert len(floor.driver.output("limits.claims")) - sent <= 4, "what is answered is not repeated"


def test_two_shared_caps_of_one_job_stop_nobody_for_good() -> None:
    floor = Floor(ONE, Limit("of_type", "job_type", "draft_reply", 1))
    for place in floor.places:
        place.submit_some(4)
    floor.pass_time(1)
    done = 0
    for _ in range(40):
        done += turn(floor, 1.1).total()
    assert done == 12


def test_a_job_with_a_full_bucket_of_its_own_keeps_no_permit_from_others() -> None:
    own = Limit("one_a_report", "key", "*", 1, by="input.report")
    floor = Floor(own, CUSTOMER)
    first, other = floor.places[0], floor.places[1]
    first.submit_some(3, input=json.dumps({"report": "daily", "customer": "ann"}))
    floor.pass_time(1)
    assert len(first.running()) == 1
    other.submit_some(1, input=json.dumps({"report": "weekly", "customer": "ann"}))
    floor.pass_time(1)
    assert len(other.running()) == 1


def test_gauges_show_what_each_partition_holds_and_wants() -> None:
    floor = Floor(DRAFTS)
    for place in floor.places[:2]:
        place.submit_some(9)
    floor.pass_time(2)
    names = "tidegate_dispatcher_permits_held", "tidegate_dispatcher_permits_wanted"
    held, wanted = (
        [REGISTRY.get_sample_value(name, {"partition": p, "limit": "drafts"}) for p in "012"]
        for name in names
    )
    assert held == [len(place.running()) for place in floor.places]
    assert wanted == [4, 4, 0]
    floor.driver.close()
    assert REGISTRY.get_sample_value(names[0], {"partition": "0", "limit": "drafts"}) is None


POINTS: tuple[CrashPoint, ...] = (
    "received",
    "positions_sent",
    "produced",
    "before_commit",
    "after_commit",
    "after_write",
)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("keep_state", [True, False])
def test_a_process_that_dies_at_any_point_loses_and_makes_no_permit(
    point: Any, keep_state: bool
) -> None:
    floor = Floor(DRAFTS)
    for place in floor.places:
        place.submit_some(6)
    done = 0
    for number in range(30):
        floor.driver.crash("dispatcher", point, 1 + number % 3)
        done += turn(floor, 0.7).total()
        if number % 7 == 3:
            floor.restart(keep_state=keep_state)
            floor.driver.advance(0.3)
    floor.driver.run_of("dispatcher").commits.armed = None
    for _ in range(45):  # a lease that was committed and not handed out runs out
        done += turn(floor, 1).total()
    assert done >= 18
    floor.pass_time(2)
    assert not floor.rows()


@pytest.mark.parametrize("topic", ["limits.claims", "limits.grants"])
def test_what_is_read_twice_changes_nothing(topic: str) -> None:
    floor = Floor(DRAFTS)
    for place in floor.places:
        place.submit_some(10)
    floor.pass_time(1)
    for _ in range(4):
        turn(floor)
        floor.again(topic)
        floor.pass_time(0.5)
        assert floor.running().total() <= 4
    for _ in range(20):
        turn(floor)
    floor.again(topic)
    floor.pass_time(2)
    assert not floor.rows()


def test_claims_of_long_ago_take_and_hold_no_permit() -> None:
    floor = Floor(DRAFTS)
    floor.places[0].submit_some(4)
    floor.pass_time(1)
    turn(floor)
    floor.pass_time(2)
    assert not floor.rows()
    floor.again("limits.claims")
    floor.again("limits.grants")
    floor.pass_time(2)
    assert not floor.rows()
    floor.places[1].submit_some(9)
    floor.pass_time(1)
    assert floor.running() == {0: 0, 1: 4, 2: 0}


def test_a_cap_that_is_lowered_while_permits_are_recalled_takes_nothing_from_what_runs() -> None:
    floor = Floor(DRAFTS)
    floor.places[0].submit_some(30)
    floor.pass_time(1)
    floor.places[1].submit_some(30)
    floor.pass_time(0.3)
    floor.lowered = True
    floor.deploy(Limit("drafts", "job_type", "draft_reply", 2))
    floor.pass_time(1)
    assert floor.running() == {0: 4, 1: 0, 2: 0}
    for left in (3, 2):
        floor.places[0].end_all(1)
        floor.pass_time(0.5)
        assert floor.running().total() == left
    floor.lowered = False
    for _ in range(4):
        turn(floor, 0.5)
        assert floor.running() == {0: 1, 1: 1, 2: 0}


def test_a_cap_that_is_raised_is_used_at_once() -> None:
    floor = Floor(DRAFTS)
    floor.places[2].submit_some(30)
    floor.pass_time(1)
    floor.deploy(Limit("drafts", "job_type", "draft_reply", 9))
    floor.pass_time(1)
    assert floor.running() == {0: 0, 1: 0, 2: 9}


def test_a_limit_that_is_gone_or_not_shared_any_more_leaves_no_permits() -> None:
    for later in ((), (Limit("drafts", "job_type", "draft_reply", 4, shared=False),)):
        floor = Floor(DRAFTS)
        for place in floor.places:
            place.submit_some(9)
        floor.pass_time(1)
        floor.deploy(*later)
        floor.pass_time(2)
        assert floor.running().total() == (12 if later else 27)
        assert not floor.rows()


def test_a_limit_that_is_shared_from_now_on_waits_until_what_runs_fits() -> None:
    floor = Floor(Limit("drafts", "job_type", "draft_reply", 4, shared=False))
    for place in floor.places:
        place.submit_some(9)
    floor.pass_time(1)
    assert floor.running().total() == 12
    floor.lowered = True
    floor.deploy(DRAFTS)
    floor.pass_time(2)
    assert floor.running().total() == 12
    turn(floor, 2)
    floor.lowered = False
    floor.check()
    assert floor.running().total() == 4


def test_while_an_owner_is_away_what_it_granted_is_used_and_local_work_goes_on() -> None:
    floor = Floor(DRAFTS)
    holder, other = floor.places[0], floor.places[1]
    holder.submit_some(40)
    floor.pass_time(1)
    with floor.without("limits.claims", floor.owner("drafts", "draft_reply")):
        other.submit_some(5)
        other.submit_some(5, "refund")
        for _ in range(6):
            holder.end_all()
            floor.pass_time(10)
        assert len(holder.running()) == 4, "it uses the permits that it holds"
        assert len(other.running()) == 5, "only what no shared limit counts"
    floor.pass_time(1)
    assert floor.running().total() == 9


def test_the_jobs_of_a_disabled_tenant_hold_no_permit() -> None:
    floor = Floor(DRAFTS)
    closed, other = floor.places[0], floor.places[1]
    closed.submit_some(9)
    floor.pass_time(1)
    closed.tenant(closed.tenant_id, disabled=True)
    closed.end_all()
    other.submit_some(9)
    floor.pass_time(2)
    assert floor.running() == {0: 0, 1: 4, 2: 0}


def test_no_permit_is_asked_for_while_no_worker_handles_the_type() -> None:
    floor = Floor(Limit("others", "job_type", "unknown", 1))
    floor.places[0].submit_some(5, "unknown")
    floor.pass_time(3)
    assert not floor.rows()


def played(seed: int) -> None:
    """Jobs, crashes, restarts and repeated reading at random, then the end of it all."""
    chance = random.Random(seed)
    limits = (DRAFTS, Limit("all", "global", "*", 6), CUSTOMER)
    floor = Floor(*limits)
    names: set[str] = set()
    for _ in range(60):
        place = chance.choice(floor.places)
        match chance.randrange(9):
            case 0 | 1 | 2:
                customer = json.dumps({"customer": chance.choice("abc")})
                type_ = chance.choice(("draft_reply", "refund"))
                names.update(place.submit_some(chance.randrange(1, 5), type_, input=customer))
            case 3 | 4:
                place.end_all(chance.randrange(1, 4))
            case 5:
                floor.restart(keep_state=chance.random() < 0.5)
                floor.driver.advance(0.3)
            case 6:
                floor.driver.crash("dispatcher", chance.choice(POINTS), chance.randrange(1, 4))
            case 7:
                floor.again(chance.choice(("limits.claims", "limits.grants")))
            case 8:
                floor.pass_time(chance.choice((0.1, 0.5, 3)))
        floor.pass_time(chance.choice((0, 0.1, 0.3)))
    floor.driver.run_of("dispatcher").commits.armed = None
    for _ in range(400):
        if not turn(floor, 0.5).total():
            floor.pass_time(1.2)
            if not floor.running().total():
                break
    left = {name for name in names if floor.places[0].job(name).status != "succeeded"}
    assert not left
    floor.pass_time(3)
    assert not floor.rows()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_whatever_happens_no_more_run_than_permits_and_all_jobs_end(seed: int) -> None:
    played(seed)


def test_short_stories_of_faults_hold() -> None:
    played(100)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    with FAULTS[name](), pytest.raises((Broken, AssertionError)):
        some_are_played(20)


def some_are_played(seeds: int) -> None:
    for seed in range(seeds):
        played(seed)


def test_a_lone_claim_of_long_ago_holds_no_permit() -> None:
    floor = Floor(DRAFTS)
    floor.places[0].submit_some(4)
    floor.pass_time(1)
    turn(floor, 3)
    assert not floor.rows()
    old = floor.driver.output("limits.claims")[-1]
    held = replace(LIMIT_CLAIM.decode(old.value), returned=0)
    floor.driver.pipe("limits.claims", old.key, LIMIT_CLAIM.encode(held), partition=old.partition)
    floor.pass_time(1)
    assert not floor.rows()
    floor.places[1].submit_some(9)
    floor.pass_time(1)
    assert floor.running() == {0: 0, 1: 4, 2: 0}

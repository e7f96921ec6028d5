"""Storms of waits: many at once, around parks that are cut short, and each job goes on once."""

from __future__ import annotations

import json
from collections import Counter
from itertools import cycle
from typing import get_args

import pytest
from support.wait_storm import CountingWorker, Fault, Storm, lay_out
from support.waiter import event_wait, sleep

from streams.runtime.memory_broker import CrashPoint
from streams.serde.records import Wait

LAYOUTS = pytest.mark.parametrize("fused", [False, True], ids=["apart", "fused"])
WAITS, ROUNDS = 128, 4
MOST_IN_A_STEP = 1_000
"""Jobs that one transaction wakes; each may be leased in it, too."""
AT_ONCE = 3 * MOST_IN_A_STEP
NOT_COMMITTED = ("received", "positions_sent", "produced", "before_commit")
LOSSES: tuple[Fault, ...] = ("worker_before", "worker_with", "worker_after")


def assert_each_went_on_once(storm: Storm) -> None:
    expected = json.dumps([f"reply.{number}" for number in range(storm.rounds)])
    for job_id in storm.ids:
        job = storm.desk.job(job_id)
        assert (job.status, job.result, job.resumes) == ("succeeded", expected, storm.rounds)
    assert (storm.index(), storm.timers(), storm.desk.dead_letters()) == ([], 0, [])


@LAYOUTS
def test_events_before_at_and_after_the_park_wake_each_job_once(fused: bool) -> None:
    storm = Storm(WAITS, ROUNDS, fused=fused)
    storm.play({})
    assert_each_went_on_once(storm)


@LAYOUTS
def test_so_they_do_where_the_stage_dies_in_the_commits_of_parks(fused: bool) -> None:
    storm = Storm(WAITS, ROUNDS, fused=fused)
    points: tuple[CrashPoint, ...] = get_args(CrashPoint)
    # Three jobs of seven at a point: one for each place of the event. The next round takes others.
    faults: dict[tuple[int, int], Fault] = {
        (job, number): points[(job // 3 + number) % len(points)]
        for number in range(ROUNDS)
        for job in range(WAITS)
        if job % 2 == number % 2
    }
    storm.play(faults)
    assert faults == {}
    assert_each_went_on_once(storm)


@LAYOUTS
def test_so_they_do_where_the_worker_is_lost_around_its_parks(fused: bool) -> None:
    storm = Storm(WAITS, ROUNDS, fused=fused)
    faults = {(40 * number + 7, number): LOSSES[number] for number in range(3)}
    storm.play(faults)
    assert faults == {}
    assert_each_went_on_once(storm)


def test_so_they_do_where_the_layout_is_switched_again_and_again() -> None:
    storm, fused = Storm(WAITS, ROUNDS, fused=False), cycle((True, False))
    storm.play({}, lambda: lay_out(storm, fused=next(fused)))
    assert_each_went_on_once(storm)


@LAYOUTS
def test_so_they_do_where_the_stage_loses_its_disk_again_and_again(fused: bool) -> None:
    storm = Storm(WAITS, ROUNDS, fused=fused)

    def lose_the_disk() -> None:
        storm.desk.driver.restart("dispatcher")
        storm.desk.driver.advance(0.5)

    storm.play({}, lose_the_disk)
    assert_each_went_on_once(storm)


@LAYOUTS
@pytest.mark.parametrize("first", ["event", "time"])
@pytest.mark.parametrize("at", [None, *get_args(CrashPoint)])
def test_of_a_timeout_and_an_event_in_one_batch_one_counts(
    fused: bool, first: str, at: CrashPoint | None
) -> None:
    storm = Storm(32, 1, fused=fused)
    leases = storm.new_leases()
    with storm.desk.held_back():
        for lease in leases:
            storm.park(lease, event_wait(lease.job_id, timeout_ms=60_000))
    storm.suspend(60)
    with storm.desk.held_back():
        if at is not None:
            storm.desk.driver.crash("dispatcher", at)
        for lease in leases:
            if first == "event":
                storm.reply(lease.job_id)
        storm.desk.driver.advance(0.1)
        for lease in leases:
            if first == "time":
                storm.reply(lease.job_id)
    again = storm.new_leases()
    assert sorted(lease.job_id for lease in again) == sorted(storm.ids)
    ends = Counter(lease.steps[0].raises for lease in again)
    if not fused and at in NOT_COMMITTED:  # they are read again, in whichever order
        assert ends.total() == len(storm.ids)
    else:
        assert ends == {None if first == "event" else "WaitTimeout": len(storm.ids)}
    assert {storm.desk.job(job_id).resumes for job_id in storm.ids} == {1}
    assert (storm.index(), storm.timers()) == ([], 0)


@LAYOUTS
def test_a_machine_that_was_suspended_wakes_each_job_once(fused: bool) -> None:
    """Each job sleeps again and again for a minute: 78 of them pass unseen, and none is made up."""
    storm = Storm(WAITS, 1, fused=fused)
    for lease in storm.new_leases():
        storm.park(lease, sleep(60, "sleep"))
    storm.suspend(78 * 60)
    storm.desk.driver.advance(0.5)
    storm.boot()
    again = storm.new_leases()
    assert sorted(lease.job_id for lease in again) == sorted(storm.ids)
    for lease in again:
        storm.park(lease, sleep(60, "sleep#2"))
    storm.worker.stay(59)
    assert storm.new_leases() == []
    storm.worker.stay(2)
    assert len(storm.new_leases()) == WAITS
    assert {storm.desk.job(job_id).resumes for job_id in storm.ids} == {2}


@LAYOUTS
def test_a_wake_goes_to_no_worker_of_older_code_that_lacks_the_job_type(fused: bool) -> None:
    storm = Storm(WAITS, 1, fused=fused)
    for lease in storm.new_leases():
        storm.park(lease, event_wait(lease.job_id))
    storm.boot(types=("refund",))  # the release was taken back
    for job_id in storm.ids:
        storm.reply(job_id)
    assert storm.new_leases() == []
    assert {storm.desk.job(job_id).status for job_id in storm.ids} == {"pending"}
    newer = CountingWorker(storm.desk, "w2/b1", slots=1_000, types=("draft_reply",))
    newer.heartbeat()
    storm.desk.driver.advance(0.2)
    leased = storm.desk.leased()[WAITS:]
    assert sorted(lease.job_id for _, lease in leased) == sorted(storm.ids)
    assert {to for to, _ in leased} == {"w2/b1"}


@pytest.mark.long
@pytest.mark.parametrize(("kind", "fused"), [("time", False), ("event", True)])
def test_more_wakes_in_one_second_than_fit_a_step_are_made_in_bounded_steps(
    kind: str, fused: bool
) -> None:
    """The times of a second are over at once where the stage was away meanwhile."""
    storm = Storm(AT_ONCE, 1, fused=fused)
    leases = storm.all_leases()
    due = storm.desk.driver.now + 60_000
    with storm.desk.held_back():
        for number, lease in enumerate(leases):
            nap = Wait("sleep", "time", 0, b"s", group=0, until=due + number % 1_000)
            storm.park(lease, nap if kind == "time" else event_wait("all"))
    with storm.counted() as steps:
        if kind == "event":
            storm.reply("all")
        else:
            storm.suspend(61)
            storm.boot()
        storm.worker.stay(3)
        again = storm.all_leases()
    assert Counter(lease.job_id for lease in again) == Counter(storm.ids)
    assert max(steps) <= 2 * MOST_IN_A_STEP
    assert len(steps) >= AT_ONCE / MOST_IN_A_STEP

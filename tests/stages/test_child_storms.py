"""Storms of children: each is made once and counted once, whatever ends in between."""

from __future__ import annotations

import json
from itertools import cycle
from typing import get_args

import pytest
from support.family import spec
from support.family_storm import GATHER, ROOT, FamilyStorm
from support.wait_storm import lay_out

from streams.runtime.memory_broker import CrashPoint
from streams.serde.records import Lease
from streams.serde.step_ids import gathered_id

LAYOUTS = pytest.mark.parametrize("fused", [False, True], ids=["apart", "fused"])
BAD = {7: "failed", 11: "cancelled", 13: "review"}


def assert_parent_saw(storm: FamilyStorm) -> None:
    storm.assert_whole()
    root = storm.jobs()[ROOT]
    ends = {"succeeded": storm.count - 2, "failed": 1, "cancelled": 1}
    assert (root.status, root.result) == ("succeeded", json.dumps(sorted(map(list, ends.items()))))
    assert set(storm.ran.values()) == {1}


@LAYOUTS
def test_a_thousand_of_which_one_dies_one_is_cancelled_and_one_is_replayed(fused: bool) -> None:
    storm = FamilyStorm(1_000, limit=150, bad=BAD, fused=fused)
    storm.play()
    assert_parent_saw(storm)


@LAYOUTS
@pytest.mark.parametrize("point", get_args(CrashPoint))
def test_so_it_is_where_the_stage_dies_in_each_round(fused: bool, point: CrashPoint) -> None:
    storm = FamilyStorm(120, limit=25, bad=BAD, fused=fused)
    storm.play(lambda: storm.desk.driver.crash("dispatcher", point))
    assert_parent_saw(storm)


@LAYOUTS
@pytest.mark.parametrize("point", get_args(CrashPoint))
def test_so_it_is_where_it_dies_around_the_seal_and_each_page(
    fused: bool, point: CrashPoint
) -> None:
    storm = FamilyStorm(60, limit=10, bad=BAD, fused=fused)
    lease = storm.lease_of(ROOT)
    storm.places = {storm.child(lease, place): place for place in range(storm.count)}
    storm.desk.driver.crash("dispatcher", point)
    storm.seal(lease, storm.count, limit=storm.limit, tolerated=storm.count)
    for first in (0, 20, 40):
        storm.desk.driver.crash("dispatcher", point)
        page = [spec(gathered_id(GATHER, n, None)) for n in range(first, first + 20)]
        storm.add(lease, first, page, GATHER)
        storm.add(lease, first, page, GATHER)  # a worker that was not acknowledged sends it again
    storm.desk.driver.crash("dispatcher", point)
    storm.run_parent(lease)
    storm.play()
    assert_parent_saw(storm)


def test_so_it_is_where_the_layout_is_switched_again_and_again() -> None:
    storm, fused = FamilyStorm(300, limit=40, bad=BAD), cycle((True, False))
    storm.play(lambda: lay_out(storm, fused=next(fused)))
    assert_parent_saw(storm)


@LAYOUTS
def test_so_it_is_where_the_stage_loses_its_disk_again_and_again(fused: bool) -> None:
    storm = FamilyStorm(300, limit=40, bad=BAD, fused=fused)

    def lose_the_disk() -> None:
        storm.desk.driver.restart("dispatcher")
        storm.desk.driver.advance(0.5)

    storm.play(lose_the_disk)
    assert_parent_saw(storm)


@LAYOUTS
@pytest.mark.parametrize("point", [None, *get_args(CrashPoint)])
def test_a_cancel_while_hundreds_end_ends_all_of_them(
    fused: bool, point: CrashPoint | None
) -> None:
    storm = FamilyStorm(600 if point is None else 300, limit=500, fused=fused)
    storm.run_parent(storm.lease_of(ROOT))
    leases = [lease for _ in range(4) for lease in storm.go_on()]
    half = len(leases) // 2
    with storm.desk.held_back(logged=True):
        if point is not None:
            storm.desk.driver.crash("dispatcher", point)
        for number, lease in enumerate(leases[:half]):
            storm.run_child(lease)
            if number == half // 2:
                storm.desk.cancel(ROOT)
    storm.desk.driver.advance(1)
    if point is not None:  # a new process does not know its workers before they are there
        storm.worker.heartbeat(*leases[half:])
    told = {reply.job_id for reply in storm.desk.replies() if reply.kind == "cancel"}
    assert told >= {lease.job_id for lease in leases[half:]}
    with storm.desk.held_back():
        for lease in leases[half:]:
            storm.end(lease, "cancelled")
    assert storm.go_on(1) == [], "nothing below the cancelled one is leased"
    jobs = storm.jobs()
    assert jobs[ROOT].status == "cancelled"
    made = [job for job in jobs.values() if job.job_id != ROOT]
    assert {job.status for job in made} == {"succeeded", "cancelled"}
    storm.count = len(made)
    storm.assert_whole()


@LAYOUTS
def test_a_worker_that_dies_between_the_seal_and_the_pages_loses_nothing(fused: bool) -> None:
    storm = FamilyStorm(90, limit=30, bad=BAD, fused=fused)
    lease: Lease = storm.lease_of(ROOT)
    storm.seal(lease, storm.count, limit=storm.limit, tolerated=storm.count)
    page = [spec(gathered_id(GATHER, n, None)) for n in range(25)]
    storm.boot()
    storm.add(lease, 0, page, GATHER)
    storm.play()
    assert_parent_saw(storm)

"""Workers, their credits and their leases as one partition knows them."""

from __future__ import annotations

import dataclasses

import pytest

from streams.dispatcher.jobs import FIRST, from_submission
from streams.dispatcher.leases import Running
from streams.dispatcher.worker_registry import Roster
from streams.serde.records import Command, Handler, Heartbeat, HeldLease, Job, Submit
from streams.topology.load import load
from streams.topology.model import LeasePolicy

TYPES = ("draft", "refund")
TOPOLOGY = load()


@pytest.fixture
def roster() -> Roster:
    return Roster(LeasePolicy())


def beat(
    worker: str, free: int = 4, received: int = 0, *, types: tuple[str, ...] = TYPES,
    leases: tuple[HeldLease, ...] = (), lean: bool = False, pool: str = "default",
) -> Heartbeat:  # fmt: skip
    handlers = () if lean else tuple(Handler(type_, 3, (), 60) for type_ in types)
    return Heartbeat(worker, pool, 3, free, leases, handlers, received=received, lean=lean)


def running(number: int, worker: str, type_: str = "draft") -> Job:
    submit = Submit(type_, "{}", None, None, None, None, None, None, b"", None)
    command = Command("c", "acme", f"job_{number:04}", 0, 0, submit)
    job = from_submission(command, submit, TOPOLOGY, place=FIRST, at=0, now=0)
    return dataclasses.replace(job, status="running", epoch=1, worker_id=worker)


def grant(roster: Roster, number: int, type_: str = "draft") -> Running:
    worker = roster.freest("default", type_)
    assert worker is not None
    roster.granted(running(number, worker.worker_id, type_), worker)
    return roster.running[f"job_{number:04}"]


def credits(roster: Roster, worker: str) -> int:
    found = roster.worker(worker)
    assert found is not None
    return found.credits


def test_a_lease_on_its_way_is_counted_on_one_side_only(roster: Roster) -> None:
    roster.heard(beat("w/1", free=3), "h1", 0)
    assert [grant(roster, n).number for n in range(2)] == [1, 2]
    assert credits(roster, "w/1") == 1
    roster.heard(beat("w/1", free=3, received=0), "h2", 1)
    assert credits(roster, "w/1") == 1, "it had read neither when it said so"
    roster.heard(beat("w/1", free=2, received=1), "h3", 2)
    assert credits(roster, "w/1") == 1
    roster.announced("w/1", 2, 2)
    assert credits(roster, "w/1") == 2, "it has read both, and one has ended"


def test_a_word_that_comes_late_counts_for_nothing(roster: Roster) -> None:
    roster.heard(beat("w/1", free=3), "h1", 0)
    for number in range(2):
        grant(roster, number)
    roster.announced("w/1", 0, 2)
    roster.announced("w/1", 2, 1)
    assert credits(roster, "w/1") == 0


def test_credits_never_go_below_none_and_a_worker_without_any_is_not_picked(roster: Roster) -> None:
    roster.heard(beat("w/1", free=1), "h1", 0)
    grant(roster, 1)
    roster.announced("w/1", 0, 0)
    assert (credits(roster, "w/1"), roster.freest("default", "draft")) == (0, None)
    assert roster.able("default") == set()


def test_a_lease_that_was_never_read_gives_its_credit_back(roster: Roster) -> None:
    roster.heard(beat("w/1", free=2), "h1", 0)
    lost, read = grant(roster, 1), grant(roster, 2)
    roster.over(lost.job_id)
    assert credits(roster, "w/1") == 1
    roster.announced("w/1", 0, 2)
    assert credits(roster, "w/1") == 0, "both were read after all"
    roster.over(read.job_id)
    assert credits(roster, "w/1") == 0, "a slot that was filled is offered by its worker alone"


def test_the_worker_with_most_credits_that_handles_the_type_is_picked(roster: Roster) -> None:
    roster.heard(beat("a/1", free=2), "h", 0)
    roster.heard(beat("b/1", free=3, types=("draft",)), "h", 0)
    roster.heard(beat("c/1", free=9, pool="other"), "h", 0)
    picks = [grant(roster, n).worker_id for n in range(3)]
    assert picks == ["b/1", "a/1", "b/1"] or picks == ["b/1", "b/1", "a/1"]
    assert grant(roster, 4, "refund").worker_id == "a/1"
    assert roster.able("default") == {"draft"}


def test_a_silent_worker_gets_nothing_and_is_forgotten_later(roster: Roster) -> None:
    roster.heard(beat("busy/1", free=2), "h", 0)
    roster.heard(beat("idle/1", free=0), "h", 0)
    roster.pass_time(13)
    assert (roster.able("default"), roster.types("default")) == (set(), set(TYPES))
    roster.pass_time(31)
    assert roster.worker("busy/1") is None
    assert roster.worker("idle/1") is not None, "it has nothing here, and is heard once a minute"
    roster.pass_time(151)
    assert roster.types("default") == set()
    assert (roster._workers, roster._pools, roster._boots._newest) == ({}, {}, {})


def test_a_silent_worker_that_is_heard_again_is_leased_to_again(roster: Roster) -> None:
    roster.heard(beat("w/1"), "h", 0)
    roster.pass_time(13)
    roster.heard(beat("w/1", lean=True), "h", 14)
    assert roster.able("default") == set(TYPES), "a lean heartbeat leaves the handlers as they are"


def test_a_lean_heartbeat_of_an_unknown_process_renews_leases_and_is_asked_for_more(
    roster: Roster,
) -> None:
    lease = Running("job_0001", 1, "w/1", "acme", "draft", "default", 30)
    roster.resume(lease, 0)
    roster.heard(beat("w/1", lean=True, leases=(HeldLease("job_0001", 1),)), "h", 20)
    assert lease.ends_at == 50
    assert (roster.strangers, roster.worker("w/1")) == ({"w/1": 3}, None)
    roster.heard(beat("w/1", received=7), "h", 21)
    assert roster.strangers == {}
    assert credits(roster, "w/1") == 4, "what it read before counts for nothing here"


def test_a_later_boot_takes_over_at_once_and_gets_the_leases_of_the_earlier(roster: Roster) -> None:
    roster.heard(beat("w/1"), "h", 0)
    lease = grant(roster, 1)
    assert roster.heard(beat("w/2"), "h", 1) == [lease]
    assert roster.heard(beat("w/1"), "h", 2) == [], "its late word counts for nothing"
    assert (roster.worker("w/1"), roster.heard(beat("w/2"), "h", 3)) == (None, [lease])
    roster.over(lease.job_id)
    assert roster.heard(beat("w/2"), "h", 4) == []


def test_a_restarted_worker_with_a_clock_behind_is_heard_once_the_other_is_silent(
    roster: Roster,
) -> None:
    roster.heard(beat("w/2"), "h", 0)
    lease = grant(roster, 1)
    assert roster.heard(beat("w/1"), "h", 12) == []
    assert roster.worker("w/1") is None
    assert roster.heard(beat("w/1"), "h", 13) == [lease]
    assert credits(roster, "w/1") == 4
    assert roster.succeeds("w/1", lease.worker_id)


def test_after_a_takeover_a_process_that_holds_leases_counts_as_heard(roster: Roster) -> None:
    lease = Running("job_0001", 1, "w/2", "acme", "draft", "default", 30)
    roster.resume(lease, 100)
    assert roster.heard(beat("w/1"), "h", 101) == []
    assert roster.heard(beat("w/1"), "h", 113) == [lease]


def test_a_process_that_leaves_is_forgotten_with_what_it_still_had(roster: Roster) -> None:
    roster.heard(beat("w/1"), "h", 0)
    leases = [grant(roster, n) for n in range(2)]
    assert roster.left("w/1") == leases
    assert (roster.worker("w/1"), roster.able("default")) == (None, set())


def test_overdue_leases_come_in_parts_the_earliest_first(roster: Roster) -> None:
    roster.heard(beat("w/1", free=9), "h1", 0)
    early = [grant(roster, n) for n in range(3)]
    roster.heard(beat("w/1", free=9, received=3), "h2", 5)
    late = [grant(roster, n) for n in range(3, 5)]
    assert roster.overdue(29, 9) == []
    assert roster.overdue(30, 2) == early[:2]
    assert roster.overdue(35, 9) == early + late
    held = tuple(HeldLease(lease.job_id, 1) for lease in early)
    roster.heard(beat("w/1", leases=held, received=5), "h3", 35)
    assert roster.overdue(35, 9) == late


def test_fresh_terms_put_off_the_end_of_every_lease(roster: Roster) -> None:
    roster.heard(beat("w/1"), "h1", 0)
    lease = grant(roster, 1)
    roster.fresh_terms(100)
    assert roster.overdue(129, 9) == []
    assert roster.overdue(130, 9) == [lease]


def test_each_worker_without_credits_is_asked_at_most_once_a_second(roster: Roster) -> None:
    for number in range(10):
        roster.heard(beat(f"w{number}/1", free=0), "h", 0)
    roster.heard(beat("rich/1", free=1), "h", 0)
    roster.heard(beat("other/1", free=0, types=("mail",)), "h", 0)
    asked = [w.worker_id for _ in range(4) for w in roster.to_ask("default", {"draft"}, 4, 1)]
    assert sorted(asked) == [f"w{number}/1" for number in range(10)]
    assert list(roster.to_ask("default", {"draft"}, 4, 1.9)) == []
    assert len(list(roster.to_ask("default", {"draft"}, 4, 2.1))) == 4


def test_workers_that_cannot_help_do_not_hide_one_that_can(roster: Roster) -> None:
    for number in range(200):
        roster.heard(beat(f"w{number}/1", free=0, types=("mail",)), "h", 0)
    roster.heard(beat("able/1", free=0), "h", 0)
    rounds = [[w.worker_id for w in roster.to_ask("default", {"draft"}, 4, 1)] for _ in range(4)]
    assert rounds == [[], [], [], ["able/1"]]


def test_a_type_that_a_worker_turned_out_not_to_handle_goes_elsewhere(roster: Roster) -> None:
    roster.heard(beat("w/1", free=5), "h", 0)
    roster.forget_type("w/1", "draft")
    assert (roster.able("default"), credits(roster, "w/1")) == ({"refund"}, 5)
    roster.left("w/1")
    assert roster._pools == {}

"""Leases over the link: their terms, the slots that are shared out, and those that are declined."""

from __future__ import annotations

import pytest
from support.linked_worker import LinkedWorker
from support.scripted_owner import ScriptedOwner

from streams.serde.link.messages import Beat, Leased, Wanted
from streams.serde.records import Declined, Heartbeat
from streams.topology.model import LeasePolicy
from streams.worker.lease.credits import ON_ITS_WAY_SECONDS, TOGETHER_SECONDS


def test_a_lease_counts_its_term_from_the_beat_that_it_answers() -> None:
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    worker.now += 3
    worker.link.beat()
    worker.now += 1
    owner.lease(0, owner.of(Beat)[0].number)
    owner.lease(0)
    assert [held.basis for held in worker.begun] == [1_000.0, 1_003.0]


def test_only_an_acknowledged_heartbeat_renews_a_lease_from_its_sending() -> None:
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    owner.lease(0)
    (held,) = worker.begun
    worker.pass_time(6)
    assert held.basis == 1_000.0
    worker.now += 2
    owner.acknowledge()
    assert held.basis == 1_006.0
    worker.now += 31  # its term is over: the job may be another worker's
    worker.link.beat()
    owner.acknowledge()
    assert held.basis == 1_006.0


def test_a_lease_lasts_no_longer_than_the_present_owner_counts() -> None:
    """The topology has changed: the heir takes the job back after its own term."""
    worker = LinkedWorker()
    worker.owner("one", 0, 1).lease(0)
    worker.owner("one", 1).lease(1)
    moved, other = worker.begun
    heir = ScriptedOwner(worker.link, "two", leases=LeasePolicy(term_seconds=20)).open(0)
    assert [held.valid_until for held in (moved, other)] == [1_015.0, 1_025.0]
    worker.now += 10
    worker.link.beat()
    heir.acknowledge()
    assert moved.valid_until == 1_025.0


def test_beats_go_out_each_interval_and_heartbeats_to_partitions_with_leases_alone() -> None:
    worker = LinkedWorker()
    owner = worker.owner("one", 0, 1)
    owner.lease(1)
    for _ in range(4):
        worker.pass_time(2.5)
    assert len(owner.of(Beat)) == 3
    assert owner.kinds(0) == ["heartbeat"]
    assert owner.kinds(1) == ["heartbeat"] * 3


def test_a_lease_that_comes_twice_begins_one_run() -> None:
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    lease = owner.lease(0)
    owner.say(Leased(0, 1, lease))
    assert len(worker.begun) == 1
    assert owner.limit == 4


def test_a_limit_counts_leases_and_grows_when_a_run_leaves_its_slot() -> None:
    worker = LinkedWorker(slots=2)
    owner = worker.owner("one", 0)
    owner.lease(0)
    owner.lease(0)
    assert owner.limit == 2
    worker.held_leases.vacate(worker.begun[0])
    worker.link.tell()
    assert owner.limit == 3


def test_a_lease_beyond_the_slots_is_declined() -> None:
    worker = LinkedWorker(slots=1)
    owner = worker.owner("one", 0)
    owner.lease(0)
    beyond = owner.lease(0)
    assert len(worker.begun) == 1
    declined = owner.commands(0)[-1]
    assert isinstance(declined.body, Declined)
    assert (declined.job_id, declined.epoch) == (beyond.job_id, beyond.epoch)


@pytest.mark.parametrize("beat", [1, 99])
def test_a_lease_on_a_beat_that_is_old_or_unknown_is_declined(beat: int) -> None:
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    worker.pass_time(25)
    owner.lease(0, beat)
    assert not worker.begun
    assert isinstance(owner.commands(0)[-1].body, Declined)


def test_a_lease_of_a_former_owner_is_declined_to_the_present_one() -> None:
    worker = LinkedWorker()
    one = worker.owner("one", 0)
    two = worker.owner("two", 0)
    lease = one.lease(0)
    assert not worker.begun
    assert [c.job_id for c in two.commands(0) if isinstance(c.body, Declined)] == [lease.job_id]


def test_slots_are_shared_out_among_owners_by_and_by() -> None:
    worker = LinkedWorker(slots=8)
    one = worker.owner("one", 0)
    two = worker.owner("two", 1)
    assert (one.limit, two.limit) == (8, 0)
    worker.pass_time(ON_ITS_WAY_SECONDS)
    assert (one.limit, two.limit) == (4, 4)


def test_owners_that_are_dialed_together_get_their_shares_at_once() -> None:
    worker = LinkedWorker(slots=8)
    worker.link.dials(4)
    owners = [worker.owner(f"{number}", number) for number in range(3)]
    assert [owner.limit for owner in owners] == [2, 2, 2]
    worker.pass_time(TOGETHER_SECONDS)
    assert sum(owner.limit for owner in owners) == 8


def test_an_unused_slot_moves_to_an_owner_that_wants_one() -> None:
    worker = LinkedWorker(slots=1)
    one = worker.owner("one", 0)
    two = worker.owner("two", 1)
    two.say(Wanted())
    assert (one.limit, two.limit) == (1, 0)
    worker.now += ON_ITS_WAY_SECONDS
    two.say(Wanted())
    assert (one.limit, two.limit) == (0, 1)


def test_the_slots_of_an_owner_that_is_gone_are_offered_to_the_others() -> None:
    worker = LinkedWorker(slots=3)
    one = worker.owner("one", 0)
    two = worker.owner("two", 1)
    one.lease(0)
    one.cut()
    assert two.limit == 2
    two.own(0, 1)
    worker.held_leases.vacate(worker.begun[0])
    worker.link.tell()
    assert two.limit == 3


def test_slots_wait_for_an_owner_while_there_is_none() -> None:
    worker = LinkedWorker(slots=3)
    one = worker.owner("one", 0)
    one.lease(0)
    one.cut()
    worker.held_leases.vacate(worker.begun[0])
    assert worker.owner("one", 0).limit == 3


def test_a_worker_that_drains_says_so_and_takes_no_more() -> None:
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    worker.held_leases.draining = True
    worker.link.beat()
    assert owner.of(Beat)[-1] == Beat(2, 0, True)
    owner.lease(0)
    assert not worker.begun
    assert isinstance(owner.commands(0)[-1].body, Declined)


def test_a_lease_that_is_over_is_listed_no_more() -> None:
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    owner.lease(0)
    worker.held_leases.vacate(worker.begun[0])
    worker.held_leases.drop(worker.begun[0])
    worker.pass_time(5)
    heartbeats = [c.body for c in owner.commands(0) if isinstance(c.body, Heartbeat)]
    assert [len(each.leases) for each in heartbeats] == [0]

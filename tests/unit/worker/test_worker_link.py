"""Commands over the link: in order, kept until acknowledged, and sent again to the heir."""

from __future__ import annotations

from support.linked_worker import HANDLERS, LinkedWorker

from streams.errors import Fenced, PermanentError
from streams.serde.link.frames import MAX_COMMAND_BYTES
from streams.serde.link.messages import Acked, Answer, Beat, Hello, Order, Refused
from streams.serde.records import Claim, Heartbeat, Reply


def actions(owner, partition: int = 0) -> list[str]:  # type: ignore[no-untyped-def]
    """What the claims to a partition are about, in their order."""
    bodies = [command.body for command in owner.commands(partition)]
    return [body.claim_id for body in bodies if isinstance(body, Claim)]


def test_a_connection_begins_with_who_the_worker_is_and_a_beat_follows_the_welcome() -> None:
    worker = LinkedWorker(slots=4)
    owner = worker.owner("one", 0, 1)
    hello, beat, *_ = owner.said
    assert hello == Hello(1, "w1", "boot", "default", 4, HANDLERS)
    assert beat == Beat(1, 4)
    assert owner.kinds(0) == owner.kinds(1) == ["heartbeat"]
    assert owner.kinds(2) == []


def test_a_command_waits_for_its_partitions_owner_and_then_for_its_acknowledgement() -> None:
    worker = LinkedWorker()
    worker.claim("early")
    owner = worker.owner("one", 0)
    assert owner.kinds(0) == ["heartbeat", "claim"]
    assert not worker.settled
    owner.acknowledge()
    owner.acknowledge()
    assert worker.done() == ["early"]


def test_what_is_not_acknowledged_goes_to_the_heir_in_its_order_behind_an_introduction() -> None:
    worker = LinkedWorker()
    one = worker.owner("one", 0, 1)
    one.acknowledge()
    for name in ("a", "b", "c"):
        worker.claim(name)
    worker.claim("elsewhere", partition=1)
    first = next(o.number for o in one.of(Order) if o.kind == "claim")
    one.say(Acked({0: first}))
    one.cut()
    worker.claim("d")
    two = worker.owner("two", 0)
    assert two.kinds(0) == ["heartbeat", "claim", "claim", "claim"]
    assert actions(two) == ["b", "c", "d"]
    assert actions(two, 1) == []
    two.acknowledge()
    assert worker.done() == ["a", "b", "c", "d"]


def test_an_acknowledgement_that_was_lost_is_made_up_for_by_another_copy() -> None:
    worker = LinkedWorker()
    one = worker.owner("one", 0)
    worker.claim("a")
    one.cut()  # it had committed the claim
    again = worker.owner("one", 0)
    assert actions(again) == ["a"]
    again.acknowledge()
    assert worker.done() == ["a"]


def test_an_acknowledgement_of_a_former_copy_says_nothing_of_what_the_owner_has_dropped() -> None:
    """The owner loses its partition, drops `a`, gets the partition again, and then reads `b`."""
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    worker.claim("a")
    worker.claim("b")
    of_b = owner.of(Order)[-1].number
    owner.own()
    owner.own(0)
    owner.say(Acked({0: of_b}))
    assert worker.settled == []
    assert actions(owner) == ["a", "b", "a", "b"]
    owner.acknowledge()
    assert worker.done() == ["a", "b"]


def test_the_newest_announcement_counts_until_its_owner_takes_it_back() -> None:
    worker = LinkedWorker()
    one = worker.owner("one", 0, 1)
    two = worker.owner("two", 0)
    worker.claim("a")
    worker.claim("b", partition=1)
    assert (actions(one), actions(one, 1), actions(two)) == ([], ["b"], ["a"])
    two.own()
    assert actions(one) == ["a"]
    one.acknowledge()
    assert worker.done() == ["a", "b"]


def test_an_owner_that_repeats_its_announcement_is_sent_nothing_again() -> None:
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    worker.claim("a")
    owner.own(0, 1)
    assert actions(owner) == ["a"]
    assert owner.kinds(1) == ["heartbeat"]


def test_a_claim_is_given_up_at_its_deadline_and_an_outcome_is_sent_long_after_it() -> None:
    worker = LinkedWorker()
    one = worker.owner("one", 0)
    worker.claim("claimed", seconds=25)
    worker.outcome("called", seconds=625)
    one.cut()
    worker.pass_time(25)
    assert worker.lost() == ["claimed"]
    worker.pass_time(599)
    two = worker.owner("two", 0)
    assert two.kinds(0) == ["heartbeat", "outcome"]
    two.acknowledge()
    assert worker.done() == ["called"]
    worker.outcome("late", seconds=1)
    worker.pass_time(1)
    assert worker.lost() == ["claimed", "late"]


def test_a_deadline_that_beats_move_is_asked_again() -> None:
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    owner.lease(0, term_seconds=30)
    held = worker.begun[0]
    worker.link.post(
        0, owner.commands(0)[0], lambda: held.valid_until, lambda e: worker.settled.append(("x", e))
    )
    worker.now += 20
    worker.link.beat()
    sent_again = owner.of(Order)[-1].number
    assert sent_again > 2
    worker.pass_time(5)
    assert worker.lost() == ["x"]


def test_a_frame_that_cannot_be_read_ends_its_connection() -> None:
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    worker.link.received(owner, b"[{}")
    assert owner.closed_for == "a frame cannot be read"
    owner.acknowledge()  # nothing of a closed connection is heard
    assert worker.settled == []


def test_a_later_process_of_the_same_name_ends_the_worker() -> None:
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    owner.say(Refused("replaced", "another process runs under the name w1"))
    (failure,) = worker.failures
    assert isinstance(failure, Fenced)
    assert owner.closed_for is not None


def test_why_a_worker_is_not_ready() -> None:
    worker = LinkedWorker()
    assert "none answered so far" in str(worker.link.readiness.why)
    refusing = worker.owner("one", 0)
    assert worker.link.readiness.why is None
    refusing.say(Refused("pool", "pool 'gpu' is not declared"))
    assert "one: pool 'gpu' is not declared" in str(worker.link.readiness.why)
    silent = worker.owner("two", 3)
    assert worker.link.readiness.why is None
    worker.pass_time(13)
    assert "partition 3 acknowledges nothing" in str(worker.link.readiness.why)
    silent.acknowledge()
    assert worker.link.readiness.why is None


def test_a_worker_knows_when_everything_is_acknowledged() -> None:
    worker = LinkedWorker()
    told: list[None] = []
    worker.link.when_empty(told.append)
    assert told == [None]
    owner = worker.owner("one", 0)
    worker.outcome("a")
    worker.link.when_empty(told.append)
    assert told == [None]
    owner.acknowledge()
    assert told == [None, None]


def test_a_command_that_nobody_can_apply_is_given_up_alone() -> None:
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    worker.claim("odd")
    worker.claim("good")
    odd = owner.of(Order)[-2].number
    refusal = Reply("job_1", 1, "", "refused", message="it is odd")
    owner.say(Answer(0, refusal, odd))
    ((name, error),) = worker.settled
    assert name == "odd"
    assert isinstance(error, PermanentError)
    assert worker.replies == []
    owner.acknowledge()
    assert worker.done() == ["good"]


def test_heartbeats_are_for_one_owner_alone() -> None:
    worker = LinkedWorker()
    one = worker.owner("one", 0)
    one.lease(0)
    worker.link.beat()
    one.cut()
    two = worker.owner("two", 0)
    (heartbeat,) = [c.body for c in two.commands(0) if isinstance(c.body, Heartbeat)]
    assert [each.job_id for each in heartbeat.leases] == [worker.begun[0].lease.job_id]


def test_a_command_that_no_owner_takes_fails_alone() -> None:
    """An owner would cut the connection each time, and all other runs would lose their leases."""
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    worker.claim("x" * MAX_COMMAND_BYTES)
    worker.claim("b")
    owner.acknowledge()
    (_, error), (name, none) = worker.settled
    assert isinstance(error, PermanentError)
    assert "bytes" in str(error)
    assert (name, none) == ("b", None)
    assert actions(owner) == ["b"]
    assert owner.closed_for is None

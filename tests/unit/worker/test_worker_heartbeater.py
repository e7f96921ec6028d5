"""A lease counts from the sending of heartbeats, and only of acknowledged ones."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field

from support.conditions import eventually

from streams.serde.codec import COMMAND
from streams.serde.records import Handler, Heartbeat, Lease, PayloadRef
from streams.topology.model import LeasePolicy
from streams.worker.lease.heartbeater import Heartbeater, Identity
from streams.worker.lease.held_leases import Held, HeldLeases
from streams.worker.transport.contract import Done, Inbox
from streams.worker.transport.retrying_sender import RetryingSender


@dataclass
class HeldBack:
    """A transport whose acknowledgements the test gives."""

    sent: list[tuple[int, bytes, Done]] = field(default_factory=list)

    def start(self, inbox: Inbox) -> None: ...

    def send(self, topic: str, key: bytes, value: bytes, *, partition: int, done: Done) -> None:
        self.sent.append((partition, value, done))

    def fetch(self, ref: PayloadRef) -> Future[list[bytes]]:
        raise AssertionError("a pulse reads no body")

    def close(self) -> None: ...


class World:
    """A pulse over four partitions on a clock that the test moves; term 30 s, margin 5 s."""

    def __init__(self) -> None:
        self.now = 100.0
        self.transport = HeldBack()
        self.held_leases = HeldLeases(20, 5, 4, lambda: self.now)
        handlers = (Handler("job", 1, (), 300),)
        self.heartbeater = Heartbeater(
            Identity("w1/boot", "default", handlers),
            self.held_leases,
            self.transport,
            4,
            LeasePolicy(term_seconds=30, heartbeat_seconds=5, margin_seconds=5),
            lambda: self.now,
        )

    def beat(self, partition: int = 0) -> tuple[str, Done]:
        self.heartbeater.beat(partition)
        _, value, done = self.transport.sent[-1]
        return COMMAND.decode(value).command_id, done

    def acknowledge(self, error: Exception | None = None) -> list[tuple[int, Heartbeat]]:
        """Answer all that was sent; returns it, with its partitions."""
        sent, self.transport.sent = self.transport.sent, []
        for _, _, done in sent:
            done(error)
        return [(partition, heartbeat(value)) for partition, value, _ in sent]

    def take(self, heartbeat_id: str) -> Held:
        sent_at = self.heartbeater.sent_at(heartbeat_id)
        assert sent_at is not None
        held = self.held_leases.take(lease(), sent_at)
        assert held is not None
        return held


def heartbeat(value: bytes) -> Heartbeat:
    body = COMMAND.decode(value).body
    assert isinstance(body, Heartbeat)
    return body


def lease(home_partition: int = 0) -> Lease:
    return Lease(
        worker_id="w1/boot",
        job_id="job_1",
        epoch=1,
        run_id="run_1",
        tenant_id="acme",
        scope="s",
        type="job",
        incarnation=0,
        attempt=1,
        max_attempts=1,
        timeout_seconds=300,
        term_seconds=30,
        home_partition=home_partition,
        event=None,
        payload_ref=None,
        input="null",
        workflow_id=None,
        steps=(),
        traceparent=None,
        heartbeat_id="",
        granted_at=0,
        number=0,
        alone=False,
    )


def started() -> World:
    world = World()
    world.heartbeater.announce(7)
    world.transport.sent.clear()
    return world


def test_nothing_is_announced_before_a_partition_is_assigned() -> None:
    world = World()
    world.heartbeater.beat()
    assert world.transport.sent == []
    world.heartbeater.announce(7)
    assert [partition for partition, _, _ in world.transport.sent] == [0, 1, 2, 3]


def test_a_lease_counts_from_the_sending_of_the_heartbeat_it_answers() -> None:
    world = started()
    id_, _ = world.beat()
    world.now = 110
    held = world.take(id_)
    assert (held.valid_until, held.expires_at) == (125, 130)


def test_a_later_heartbeat_counts_from_its_sending_once_it_is_acknowledged() -> None:
    world = started()
    held = world.take(world.beat()[0])
    world.now = 105
    _, acknowledge = world.beat()
    world.now = 120
    assert held.valid_until == 125
    acknowledge(None)
    assert held.valid_until == 130


def test_an_acknowledgement_after_the_term_does_not_bring_a_lease_back() -> None:
    """The dispatcher may have given the job away: this process was suspended, say."""
    world = started()
    held = world.take(world.beat()[0])
    world.now = 105
    _, acknowledge = world.beat()
    world.now = held.expires_at
    acknowledge(None)
    assert held.valid_until == 125


def test_an_acknowledgement_out_of_order_takes_nothing_away() -> None:
    world = started()
    held = world.take(world.beat()[0])
    world.now = 105
    _, early = world.beat()
    world.now = 110
    _, late = world.beat()
    late(None)
    early(None)
    assert held.valid_until == 135


def test_a_heartbeat_that_failed_or_did_not_list_the_lease_renews_nothing() -> None:
    world = started()
    id_, _ = world.beat()
    _, before_it_was_taken = world.beat()
    held = world.take(id_)
    world.now = 105
    _, failed = world.beat()
    _, other_partition = world.beat(1)
    for done, error in ((before_it_was_taken, None), (failed, OSError()), (other_partition, None)):
        done(error)
    assert held.valid_until == 125


def test_a_heartbeat_older_than_a_term_is_forgotten() -> None:
    world = started()
    id_, _ = world.beat()
    world.now += 30.1
    world.beat()
    assert world.heartbeater.sent_at(id_) is None


def test_the_thread_beats_until_it_is_stopped() -> None:
    world = started()
    thread = threading.Thread(target=world.heartbeater.run, args=(0.001,))
    thread.start()
    try:
        eventually(lambda: len(world.transport.sent) >= 8, what="two rounds of heartbeats")
    finally:
        world.heartbeater.stop()
        thread.join(5)
    assert not thread.is_alive()
    sent = len(world.transport.sent)
    world.heartbeater.beat()
    assert len(world.transport.sent) == sent


def told(sent: list[tuple[int, Heartbeat]]) -> list[int]:
    return [partition for partition, _ in sent]


def without_credits() -> World:
    """Partition 0 has neither leases nor credits of the worker, and was told so."""
    world = started()
    world.heartbeater.introduce()
    world.acknowledge()
    for _ in range(5):
        world.held_leases.credits.use(0)
    world.heartbeater.tell()
    world.acknowledge()
    return world


def test_every_heartbeat_names_the_work_partition_and_the_handlers() -> None:
    world = World()
    world.heartbeater.announce(7)
    first = world.acknowledge()
    world.now += 5
    world.heartbeater.beat()
    for sent in (first, world.acknowledge()):
        assert [(p, body.work_partition, len(body.handlers)) for p, body in sent] == [
            (p, 7, 1) for p in range(4)
        ]


def test_a_partition_without_leases_and_credits_is_told_when_it_asks_and_once_a_minute() -> None:
    world = without_credits()
    world.now += 5
    world.heartbeater.beat()
    assert told(world.acknowledge()) == [1, 2, 3]
    world.heartbeater.introduce(0)
    assert told(world.acknowledge()) == [0]
    world.now += 59
    world.heartbeater.beat()
    assert 0 not in told(world.acknowledge())
    world.now += 1
    world.heartbeater.beat()
    assert 0 in told(world.acknowledge())


def test_a_partition_that_asked_in_vain_is_told_again() -> None:
    world = without_credits()
    world.heartbeater.introduce(0)
    world.acknowledge(OSError("not written"))
    world.heartbeater.beat()
    assert 0 in told(world.acknowledge())
    world.heartbeater.beat()
    assert 0 not in told(world.acknowledge())


def test_an_acknowledgement_of_an_earlier_work_partition_introduces_nobody() -> None:
    world = without_credits()
    world.heartbeater.beat(0)
    ((_, _, early),) = world.transport.sent
    world.heartbeater.announce(9)
    early(None)
    world.transport.sent.clear()
    world.heartbeater.beat()
    assert 0 in told(world.acknowledge())
    world.heartbeater.beat()
    assert 0 not in told(world.acknowledge())


def test_a_partition_without_leases_and_credits_is_left_in_peace() -> None:
    world = started()
    world.heartbeater.introduce()
    world.acknowledge()
    for _ in range(5):
        world.held_leases.credits.use(0)
    world.heartbeater.tell()
    assert {p: body.free for p, body in world.acknowledge()}[0] == 0
    world.now += 5
    world.heartbeater.beat()
    assert 0 not in told(world.acknowledge())


def test_credits_that_were_told_in_vain_are_told_again() -> None:
    world = started()
    world.heartbeater.introduce()
    world.acknowledge()
    world.held_leases.draining = True
    world.heartbeater.tell()
    assert [(p, body.free) for p, body in world.acknowledge(OSError())] == [
        (0, 0),
        (1, 0),
        (2, 0),
        (3, 0),
    ]
    world.heartbeater.beat()
    assert [body.free for _, body in world.acknowledge()] == [0, 0, 0, 0]
    world.heartbeater.tell()
    assert world.acknowledge() == []


def test_a_partition_whose_last_credit_went_hears_of_it_though_a_send_fails() -> None:
    world = started()
    world.heartbeater.introduce()
    world.acknowledge()
    for _ in range(5):
        world.held_leases.credits.use(0)
    world.heartbeater.tell()
    world.acknowledge(OSError())
    world.heartbeater.beat()
    assert (0, 0) in [(p, body.free) for p, body in world.acknowledge()]
    world.heartbeater.beat()
    assert 0 not in told(world.acknowledge())


def test_a_word_that_came_late_is_said_anew() -> None:
    world = started()
    world.heartbeater.introduce()
    world.acknowledge()
    world.heartbeater.said(2, world.now)
    assert world.acknowledge() == []
    world.now += 0.5
    world.heartbeater.said(2, world.now - 0.5)
    assert [p for p, _ in world.acknowledge()] == [2]


def test_a_worker_is_heard_for_two_and_a_half_heartbeats() -> None:
    world = started()
    assert not world.heartbeater.heard
    world.heartbeater.introduce()
    world.acknowledge()
    world.now += 12.5
    assert world.heartbeater.heard
    world.now += 0.1
    world.heartbeater.beat()
    world.acknowledge(OSError())
    assert not world.heartbeater.heard


async def test_the_last_heartbeat_says_that_the_worker_leaves() -> None:
    world = started()
    sender = RetryingSender(world.transport, lambda: world.now)
    leaving = asyncio.ensure_future(world.heartbeater.leave(sender, 3))
    await asyncio.sleep(0)
    sent = world.acknowledge()
    await leaving
    assert [(p, b.leaving, b.free) for p, b in sent] == [(p, True, 0) for p in range(4)]
    world.heartbeater.beat()
    world.heartbeater.introduce()
    assert world.acknowledge() == []


async def test_a_partition_with_a_lease_is_not_told_that_the_worker_leaves() -> None:
    world = started()
    world.take(world.beat()[0])
    world.transport.sent.clear()
    sender = RetryingSender(world.transport, lambda: world.now)
    leaving = asyncio.ensure_future(world.heartbeater.leave(sender, 3))
    await asyncio.sleep(0)
    assert [p for p, _ in world.acknowledge()] == [1, 2, 3]
    await leaving


async def test_leaving_takes_no_longer_than_it_may() -> None:
    world = started()
    sender = RetryingSender(world.transport, lambda: world.now)
    async with asyncio.timeout(5):
        await world.heartbeater.leave(sender, 0.01)

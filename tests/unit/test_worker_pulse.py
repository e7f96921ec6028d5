"""A lease counts from the sending of heartbeats, and only of acknowledged ones."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field

from conditions import eventually

from streams.serde.codec import COMMAND
from streams.serde.records import Heartbeat, Lease, PayloadRef
from streams.worker.holdings import Held, Holdings
from streams.worker.pulse import Identity, Pulse
from streams.worker.transport import Done, Inbox


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
        self.holdings = Holdings(20, 5, lambda: self.now)
        self.pulse = Pulse(
            Identity("w1/boot", "default", ()), self.holdings, self.transport, 4, 30,
            lambda: self.now,
        )  # fmt: skip

    def beat(self, partition: int = 0) -> tuple[str, Done]:
        self.pulse.beat(partition)
        _, value, done = self.transport.sent[-1]
        return COMMAND.decode(value).command_id, done

    def take(self, heartbeat_id: str) -> Held:
        sent_at = self.pulse.sent_at(heartbeat_id)
        assert sent_at is not None
        held = self.holdings.take(lease(), sent_at)
        assert held is not None
        return held


def lease(home_partition: int = 0) -> Lease:
    return Lease(
        worker_id="w1/boot", job_id="job_1", epoch=1, run_id="run_1", tenant_id="acme", scope="s",
        type="job", incarnation=0, attempt=1, max_attempts=1, timeout_seconds=300, term_seconds=30,
        home_partition=home_partition, event=None, payload_ref=None, input="null",
        workflow_id=None, checkpoints={}, traceparent=None, heartbeat_id="", granted_at=0,
    )  # fmt: skip


def started() -> World:
    world = World()
    world.pulse.announce(7)
    return world


def test_nothing_is_announced_before_a_partition_is_assigned() -> None:
    world = World()
    world.pulse.beat()
    assert world.transport.sent == []
    world.pulse.announce(7)
    world.pulse.beat()
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
    assert world.pulse.sent_at(id_) is None


def test_the_thread_beats_at_once_when_something_changed() -> None:
    world = World()
    thread = threading.Thread(target=world.pulse.run, args=(3600,))
    thread.start()
    try:
        world.pulse.announce(7)
        eventually(lambda: len(world.transport.sent) == 4, what="heartbeats on assignment")
        world.pulse.wake()
        eventually(lambda: len(world.transport.sent) == 8, what="heartbeats on a change")
    finally:
        world.pulse.stop()
        thread.join(5)
    body = COMMAND.decode(world.transport.sent[0][1]).body
    assert isinstance(body, Heartbeat)
    assert (body.work_partition, body.free) == (7, 20)

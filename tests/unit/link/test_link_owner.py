"""What an owner makes of its workers' commands: acknowledged after their commit, or sent again."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from msgspec import Raw
from support.linked_workers import (
    NOW,
    TERMS,
    Partitions,
    acked,
    boot,
    hello,
    order,
    owned,
    to,
)

from streams.link.memory import MemoryConnection
from streams.link.peer import MOST_WAITING
from streams.runtime.dead_keys import NO_OFFSET
from streams.runtime.link import LINK
from streams.serde.link.frames import from_owner
from streams.serde.link.messages import Acked, Beat, Body, Order, Owned, Refused, Wanted, Welcome


@pytest.fixture
def partitions() -> Partitions:
    return Partitions(0, 1)


def test_a_worker_is_welcomed_with_what_it_has_to_know(partitions: Partitions) -> None:
    said = hello("w1", boot(), "gpu")
    (welcome,) = partitions.dial(said).receive()
    assert welcome == Welcome(1, f"gpu:w1/{said.boot}", "pipeline-0", 8, (0, 1), 5, 30, 5)


def test_a_command_becomes_a_record_of_its_worker(partitions: Partitions) -> None:
    connection, worker_id = partitions.welcomed()
    connection.send(order(1, 7))
    (record,) = partitions.taken()
    assert (record.topic, record.partition, record.offset) == (LINK, 1, NO_OFFSET)
    assert (record.timestamp, record.key) == (NOW, worker_id.encode())


def test_a_command_is_acknowledged_after_its_commit_alone(partitions: Partitions) -> None:
    connection, worker_id = partitions.welcomed()
    connection.send(order(0, 1), order(1, 1), order(0, 2))
    taken = partitions.taken()
    assert connection.receive() == []
    partitions.commit(taken, to(worker_id, Wanted()))
    assert connection.receive() == [Wanted(), Acked({0: 2, 1: 1})]


def test_a_commit_of_a_part_acknowledges_that_part(partitions: Partitions) -> None:
    connection, _ = partitions.welcomed()
    connection.send(order(0, 1), order(1, 1), order(0, 2))
    first, second, third = partitions.taken()
    partitions.commit([first])
    partitions.commit([second])
    assert acked(connection.receive()) == [{0: 1}, {1: 1}]
    partitions.commit([third])
    assert acked(connection.receive()) == [{0: 2}]


def test_an_aborted_transaction_gives_its_commands_again_in_order(partitions: Partitions) -> None:
    one, _ = partitions.welcomed("w1")
    two, _ = partitions.welcomed("w2")
    one.send(order(0, 1), order(1, 1))
    two.send(order(0, 1))
    first = partitions.numbers()
    one.send(order(0, 2))
    two.send(order(0, 2))
    partitions.owner.again()
    again = partitions.numbers()
    for name in ("w1", "w2"):
        told = [each for each in again if each[0] == name]
        assert told[:-1] == [each for each in first if each[0] == name]
        assert told[-1] == (name, 0, 2)
    assert one.receive() == two.receive() == []


def test_a_lost_partition_drops_its_commands_unacknowledged(partitions: Partitions) -> None:
    connection, _ = partitions.welcomed()
    connection.send(order(0, 1), order(1, 1))
    taken = partitions.taken()
    connection.send(order(0, 2), order(1, 2))
    partitions.owner.owned([1])
    partitions.commit(taken)
    assert partitions.numbers() == [("w1", 1, 2)]
    assert connection.receive() == [Owned((1,)), Acked({1: 1})]


def test_nothing_is_known_of_commands_in_flight_when_the_outcome_of_a_commit_is_unknown(
    partitions: Partitions,
) -> None:
    connection, _ = partitions.welcomed()
    connection.send(order(0, 1))
    partitions.taken()
    partitions.owner.owned([])
    partitions.owner.again()
    assert partitions.taken() == []
    assert connection.receive() == [Owned(())]


def test_a_connection_is_cut_before_a_partition_of_before_is_announced_again(
    partitions: Partitions,
) -> None:
    """What was said to this process or another one before is not taken for news."""
    before, _ = partitions.welcomed("w1")
    partitions.owner.owned([1])
    later, _ = partitions.welcomed("w2")
    partitions.owner.owned([0, 1])
    before.send(order(0, 1, "heartbeat"))
    assert partitions.taken() == []
    assert (before.ended, later.ended) == (True, False)
    assert owned(later.receive()) == [(0, 1)]


def test_a_connection_of_which_a_command_was_dropped_is_cut_before_its_partition_comes(
    partitions: Partitions,
) -> None:
    """Otherwise the acknowledgement of the second command would count for the first one."""
    connection, _ = partitions.welcomed()
    connection.send(order(5, 1))
    partitions.owner.owned([0, 1, 2, 5])
    connection.send(order(5, 2))
    assert partitions.taken() == []
    assert connection.ended


def test_what_crosses_the_news_of_a_lost_partition_is_no_harm_elsewhere(
    partitions: Partitions,
) -> None:
    connection, _ = partitions.welcomed()
    connection.send(order(5, 1), order(0, 1))
    assert partitions.numbers() == [("w1", 0, 1)]
    partitions.owner.owned([0, 1, 2])
    assert not connection.ended


def test_a_frozen_owner_that_wakes_acknowledges_no_heartbeat(partitions: Partitions) -> None:
    """It finds its transaction fenced, so no commit follows the reading."""
    connection, _ = partitions.welcomed()
    connection.send(Beat(1, 4), order(0, 1, "heartbeat"))
    partitions.taken()
    partitions.now += 60
    connection.send(Beat(2, 4), order(0, 2, "heartbeat"))
    assert len(partitions.taken()) == 1
    partitions.owner.owned([])  # the loop was told
    assert connection.receive() == [Owned(())]


def test_a_flooding_worker_does_not_keep_a_quiet_one_waiting(partitions: Partitions) -> None:
    flood, _ = partitions.welcomed("flood")
    quiet, _ = partitions.welcomed("quiet")
    for number in range(5_000):
        flood.send(order(0, number))
    quiet.send(order(0, 1), order(1, 1))
    taken = partitions.numbers()
    assert [each for each in taken if each[0] == "quiet"] == [("quiet", 0, 1), ("quiet", 1, 1)]
    assert len(taken) <= 2_000
    numbers = [number for name, _, number in taken if name == "flood"]
    assert numbers == list(range(len(numbers)))


def test_large_commands_are_shared_out_over_steps() -> None:
    """What a command asks for grows with its size, and a step has to end in time."""
    partitions = Partitions(0)
    workers = [partitions.welcomed(f"w{n}")[0] for n in range(3)]
    large = Raw(b'"' + b"x" * 1_000_000 + b'"')
    for number in range(4):
        for worker in workers:
            worker.send(msgspec.structs.replace(order(0, number), body=large))
    steps = [partitions.numbers() for _ in range(4)]
    assert [len(step) for step in steps] == [6, 6, 0, 0]
    assert [name for name, _, _ in steps[0]] == ["w0", "w0", "w1", "w1", "w2", "w2"]
    assert not partitions.owner.waiting


@pytest.mark.parametrize("field", ["number", "limit"])
def test_a_beat_has_numbers_that_records_and_gauges_hold(field: str) -> None:
    partitions = Partitions(0)
    worker, _ = partitions.welcomed()
    worker.send_frame(f'[{{"type":"beat","number":1,"limit":1,"{field}":1{"0" * 400}}}]'.encode())
    (refused,) = worker.receive()
    assert isinstance(refused, Refused)
    assert refused.reason == "malformed"


def test_more_workers_than_one_step_can_serve_have_turns(
    partitions: Partitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.link.owner._MOST_TAKEN", 2)
    names = ["w1", "w2", "w3", "w4", "w5"]
    for name in names:
        connection, _ = partitions.welcomed(name)
        connection.send(*(order(0, number) for number in range(10)))
    steps = [[name for name, _, _ in partitions.numbers()] for _ in range(5)]
    assert sorted(name for step in steps for name in step) == sorted(names * 2)


def test_a_flooding_workers_socket_is_not_read_until_there_is_room(partitions: Partitions) -> None:
    connection, _ = partitions.welcomed()
    connection.send(*(order(0, number) for number in range(MOST_WAITING)))
    assert connection.full
    woken = connection.woken
    partitions.taken()
    assert not connection.full
    assert connection.woken == woken + 1


def test_large_commands_fill_a_connection_sooner(partitions: Partitions) -> None:
    connection, _ = partitions.welcomed()
    large = Order(0, 1, "claim", msgspec.Raw(b'"' + b"x" * 1_000_000 + b'"'))
    for number in range(5):
        assert not connection.full
        connection.send(msgspec.structs.replace(large, number=number))
    assert connection.full
    partitions.taken()
    partitions.owner.again()
    assert connection.full
    partitions.owner.owned([1])
    assert not connection.full


def test_a_worker_that_reads_nothing_is_cut_and_told_why(partitions: Partitions) -> None:
    connection, worker_id = partitions.welcomed()
    connection.send(order(0, 1))
    taken = partitions.taken()
    message = to(worker_id, Refused("malformed", "x" * 1_000_000))
    partitions.commit(taken, *[message] * 20)
    partitions.now += 9
    connection.send(Beat(1, 4))
    partitions.owner.check()
    assert not connection.ended
    partitions.now += 2
    partitions.owner.check()
    (refused,) = connection.receive()
    assert isinstance(refused, Refused)
    assert refused.reason == "too_slow"
    assert connection.ended
    partitions.taken()
    assert partitions.roster.calls[-1] == ("gone", worker_id)


def test_a_worker_that_reads_may_be_given_as_many_large_leases_as_it_has_slots(
    partitions: Partitions,
) -> None:
    """Otherwise it would be cut, dial again, and be given the same leases again for ever."""
    connection, worker_id = partitions.welcomed()
    message = to(worker_id, Refused("malformed", "x" * 1_000_000))
    partitions.now += 60
    connection.send(Beat(1, 4))
    partitions.commit([], *[message] * 50)
    partitions.owner.check()
    received = 0
    while connection.frame():
        received += 1
        partitions.now += 8
        connection.send(Beat(received + 1, 4))
        partitions.owner.check()
    assert received == 50
    assert not connection.ended


def test_what_waits_for_a_worker_has_a_limit(partitions: Partitions) -> None:
    connection, worker_id = partitions.welcomed()
    message = to(worker_id, Refused("malformed", "x" * 10_000_000))
    partitions.commit([], *[message] * 26)
    assert not connection.ended
    partitions.commit([], message)
    assert connection.ended


def test_large_outputs_leave_in_frames_that_a_worker_takes(partitions: Partitions) -> None:
    connection, worker_id = partitions.welcomed()
    messages = [to(worker_id, Refused("malformed", "x" * 400_000))] * 5
    partitions.commit([], *messages)
    sizes = []
    while frame := connection.frame():
        sizes.append(len(from_owner(frame)))
    assert sizes == [2, 2, 1]


def test_a_silent_connection_is_cut(partitions: Partitions) -> None:
    silent, _ = partitions.welcomed("w1")
    alive, _ = partitions.welcomed("w2")
    mute = MemoryConnection(partitions.owner, silent.peer.grant)
    partitions.now += TERMS.silence_seconds - 1
    alive.send(Beat(1, 4))
    partitions.now += 2
    partitions.owner.check()
    assert (silent.ended, mute.ended, alive.ended) == (True, True, False)


def test_a_connection_that_the_owner_does_not_read_is_not_silent(partitions: Partitions) -> None:
    """Its beats wait behind the commands for which there is no room."""
    connection, _ = partitions.welcomed()
    connection.send(*(order(0, number) for number in range(MOST_WAITING)))
    for _ in range(3):
        partitions.now += TERMS.silence_seconds
        partitions.owner.check()
    partitions.taken()
    partitions.now += TERMS.silence_seconds - 1
    partitions.owner.check()
    assert not connection.ended
    partitions.now += 2
    partitions.owner.check()
    assert connection.ended


def test_a_broken_connection_leaves_its_commands_to_be_processed(partitions: Partitions) -> None:
    connection, _ = partitions.welcomed()
    connection.send(order(0, 1))
    connection.cut()
    taken = partitions.taken()
    assert len(taken) == 1
    partitions.commit(taken)
    assert connection.receive() == []


def test_a_worker_that_dials_again_sends_its_commands_again_and_no_old_copy_follows(
    partitions: Partitions,
) -> None:
    same = boot()
    first, _ = partitions.welcomed("w1", same)
    first.send(order(0, 1), order(0, 2))
    in_flight = partitions.taken()
    first.send(order(0, 3))
    second, _ = partitions.welcomed("w1", same)
    partitions.owner.again()
    assert first.ended
    assert partitions.taken() == []
    second.send(order(0, 2), order(0, 3))
    assert partitions.numbers() == [("w1", 0, 2), ("w1", 0, 3)]
    partitions.commit(in_flight)
    assert second.receive() == []


def test_what_was_decided_for_a_connection_does_not_go_to_the_next_one(
    partitions: Partitions,
) -> None:
    """The next one's limit does not count it; the stage learns of it between two steps."""
    same = boot()
    _, worker_id = partitions.welcomed("w1", same)
    second = partitions.dial(hello("w1", same))
    partitions.commit([], to(worker_id, Wanted()))
    partitions.taken()
    partitions.commit([], to(worker_id, Wanted()))
    welcome, *rest = second.receive()
    assert isinstance(welcome, Welcome)
    assert rest == [Wanted()]


def test_outputs_for_nobody_are_dropped(partitions: Partitions) -> None:
    partitions.commit([], to("default:w1/b", Wanted()))


def test_requests_are_the_servers_to_answer(partitions: Partitions) -> None:
    connection, _ = partitions.welcomed()
    asked = Body(1, 0, "job_1", 1)
    assert connection.send(asked, order(0, 1)) == [asked]


Say = Callable[[MemoryConnection], object]


@pytest.mark.parametrize(
    "say",
    [
        lambda c: c.send_frame(b"[{"),
        lambda c: c.send_frame(b'[{"type":"news"}]'),
        lambda c: c.send(hello("w1")),
        lambda c: c.send(order(8, 1)),
        lambda c: c.send(order(-1, 1)),
        lambda c: c.send(Order(0, 1, "x" * 4_200_000, msgspec.Raw(b"{}"))),
    ],
    ids=[
        "no JSON",
        "unknown type",
        "second hello",
        "no such partition",
        "negative partition",
        "too large",
    ],
)
def test_nonsense_ends_the_connection(partitions: Partitions, say: Say) -> None:
    connection, _ = partitions.welcomed()
    say(connection)
    (refused,) = connection.receive()
    assert isinstance(refused, Refused)
    assert (refused.reason, connection.ended) == ("malformed", True)
    connection.send(order(0, 1))
    assert partitions.taken() == []


def test_the_first_message_is_a_hello(partitions: Partitions) -> None:
    connection, _ = partitions.welcomed()
    other = MemoryConnection(partitions.owner, connection.peer.grant)
    other.send(Beat(1, 1))
    (refused,) = other.receive()
    assert isinstance(refused, Refused)
    assert refused.reason == "malformed"


def test_the_roster_is_told_in_the_stages_thread_and_of_the_newest_beat(
    partitions: Partitions,
) -> None:
    connection = partitions.dial(hello("w1", boot(), "gpu", "mail", "chat"))
    who = connection.peer.worker_id
    connection.send(Beat(1, 4), Beat(2, 5))
    partitions.now += 1
    connection.send(Beat(3, 6, draining=True))
    assert partitions.roster.calls == []
    partitions.taken()
    connection.cut()
    partitions.taken()
    assert partitions.roster.calls == [
        ("connected", who, "gpu", ("mail", "chat"), None),
        ("heard", who, 3, 6, True, 101.0),
        ("gone", who),
    ]


def test_a_process_that_ends_ends_every_connection(partitions: Partitions) -> None:
    connection, worker_id = partitions.welcomed()
    partitions.owner.close()
    assert connection.ended
    assert partitions.roster.calls[-1] == ("gone", worker_id)
    assert not partitions.owner.connected


def test_a_value_is_the_command_as_it_was_sent(partitions: Partitions) -> None:
    connection, _ = partitions.welcomed()
    said = b'[{"type":"command","partition":0,"number":4,"kind":"claim","body":{"a": [1, "x"]}}]'
    connection.send_frame(said)
    (record,) = partitions.taken()
    assert bytes(msgspec.json.decode(record.value or b"", type=Order).body) == b'{"a": [1, "x"]}'


def test_all_that_came_was_heard_once_the_server_looked_and_it_was_taken(
    partitions: Partitions,
) -> None:
    """A process that was frozen must not end leases whose heartbeats lie in its sockets."""
    moment = partitions.now
    assert not partitions.owner.caught_up_to(moment)
    partitions.now += 1
    partitions.taken()
    assert not partitions.owner.caught_up_to(moment), "the server has not looked since"
    partitions.owner.check()
    assert not partitions.owner.caught_up_to(moment), "what it found may not be taken yet"
    partitions.taken()
    assert partitions.owner.caught_up_to(moment)
    assert not partitions.owner.caught_up_to(partitions.now + 1)

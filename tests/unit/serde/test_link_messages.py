"""The frames of the link: what one end writes, the other reads."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from support.step_results import left

from streams.errors import DecodeError
from streams.serde.link import commands, frames
from streams.serde.link.messages import Acked, Beat, Order, Wanted
from streams.serde.records import (
    Checkpoint,
    Claim,
    Command,
    CommandBody,
    Ended,
    Heartbeat,
    HeldLease,
)


def test_a_command_arrives_as_it_was_sent() -> None:
    (result,) = left({"draft": '"text"'})
    body = Checkpoint("run_1", result, "clm_1")
    sent = commands.order(3, 7, Command("", "acme", "job_1", 2, 0, body))

    (read,) = frames.from_worker(frames.frame([sent]))

    assert isinstance(read, Order)
    assert (read.partition, read.number) == (3, 7)
    assert commands.command(frames.encoded(read), 99) == Command("", "acme", "job_1", 2, 99, body)


def test_what_an_owner_says_is_read_in_order() -> None:
    said = [Acked({3: 7, 0: 1}), Wanted()]

    assert frames.from_owner(frames.joined([frames.encoded(each) for each in said])) == said


def test_unknown_fields_are_ignored() -> None:
    assert frames.from_worker('[{"type":"beat","number":1,"limit":2,"mood":"fine"}]') == [
        Beat(1, 2)
    ]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"type":"lease"}]', '[{"type":"beat"}]'])
def test_what_is_no_frame_of_a_worker_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        frames.from_worker(text)


@pytest.mark.parametrize(
    ("kind", "body"), [("submit", b"{}"), ("claim", b"{}"), ("claim", b'{"run_id":1}')]
)
def test_a_command_that_no_worker_may_send_is_refused(kind: str, body: bytes) -> None:
    value = frames.encoded(Order(0, 1, kind, msgspec.Raw(body)))
    with pytest.raises(DecodeError):
        commands.command(value, 0)


def test_a_command_comes_as_it_was_sent() -> None:
    body = Claim("clm_1", "run_1", "mail/hello", b"digest", 0)
    sent = commands.order(3, 7, Command("", "acme", "job_1", 2, 0, body))

    assert commands.command(frames.encoded(sent), 99).body == body


def test_fields_that_a_body_does_not_have_are_passed_over() -> None:
    text = b'{"worker_id":"another","leases":[{"job_id":"j","epoch":1,"waits":false}]}'
    value = frames.encoded(Order(0, 1, "heartbeat", msgspec.Raw(text)))
    assert commands.command(value, 0).body == Heartbeat((HeldLease("j", 1, waits=False),))


def test_a_message_of_a_type_that_only_a_newer_worker_knows_is_passed_over() -> None:
    frame = '[{"type":"wanted"},{"type":"mood","fine":{}},{"type":"acked","numbers":{"3":7}}]'
    assert frames.from_owner(frame) == [Wanted(), Acked({3: 7})]


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", "[{}]", '[{"type":1}]', '[{"type":"mood"},{"type":"acked"}]']
)
def test_what_is_no_frame_of_an_owner_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        frames.from_owner(text)


def test_an_owner_refuses_a_message_of_an_unknown_type() -> None:
    with pytest.raises(DecodeError):
        frames.from_worker('[{"type":"mood"}]')


@pytest.mark.parametrize("depth", [100_000, 2_000])
def test_json_that_is_nested_too_deep_cannot_be_read(depth: int) -> None:
    """It must end its connection, and never the process: each owner is sent the same command."""
    nested = b"[" * depth + b"]" * depth
    order = b'{"type":"command","partition":0,"number":1,"kind":"heartbeat","body":%b}'
    deep = order % (b'{"leases":[],"news":%b}' % nested)
    with pytest.raises(DecodeError):
        frames.from_worker(b"[%b]" % deep)
    with pytest.raises(DecodeError):
        frames.from_owner(b'[{"type":"wanted","news":%b}]' % nested)
    with pytest.raises(DecodeError):
        commands.command(deep, 0)


def _heartbeat(epoch: int) -> Heartbeat:
    return Heartbeat((HeldLease("job_1", epoch, False),))


def _ended(seconds: int) -> Ended:
    return Ended("run_1", "retry", None, None, float(seconds), None)


@pytest.mark.parametrize("make", [_heartbeat, _ended])
@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_that_no_record_can_hold_are_refused(
    make: Callable[[int], CommandBody], sign: int
) -> None:
    """They would fail where they are written, after the command was accepted."""

    def read(number: int) -> Command:
        order = commands.order(0, 1, Command("", "acme", "job_1", 1, 0, make(sign * number)))
        return commands.command(frames.encoded(order), 0)

    read(2**53)
    for number in (2**53 + 2, 2**63 - 2**40):
        with pytest.raises(DecodeError, match="9,007,199,254,740,992"):
            read(number)


def test_a_frame_of_too_many_messages_is_refused() -> None:
    """An owner does nothing else while it reads one."""
    assert len(frames.from_worker(frames.frame([Beat(1, 1)] * frames.MAX_MESSAGES))) == 10_000
    with pytest.raises(DecodeError, match="10,001 messages"):
        frames.from_worker(frames.frame([Beat(1, 1)] * 10_001))

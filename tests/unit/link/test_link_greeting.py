"""Whom an owner takes, and who takes whose place."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from support.linked_workers import ALL, Partitions, boot, handler, hello, order

from streams.link.grant import Grant
from streams.serde.link.messages import Hello, Refused, Welcome
from streams.serde.records import Handler

NARROW = Grant("tok_1", "narrow", ("gpu*",), ("mail", "crm.*"), frozenset({"acme"}))


@pytest.fixture
def partitions() -> Partitions:
    return Partitions(0)


def reason(partitions: Partitions, said: Hello, grant: Grant = ALL) -> str:
    """How a hello is answered: why it is refused, or `welcome`."""
    connection = partitions.dial(said, grant)
    (answer,) = connection.receive()
    assert connection.ended == isinstance(answer, Refused)
    return answer.reason if isinstance(answer, Refused) else "welcome"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"version": 2}, "version"),
        ({"pool": "tpu"}, "pool"),
        ({"name": ""}, "malformed"),
        ({"name": "a/b"}, "malformed"),
        ({"name": "a@tok_2"}, "malformed"),
        ({"name": "a" * 201}, "malformed"),
        ({"name": "a\x1b[2J"}, "malformed"),
        ({"name": "a\u202eb"}, "malformed"),
        ({"handlers": (handler("mail\x1b[2J"),)}, "malformed"),
        ({"handlers": (handler(""),)}, "malformed"),
        ({"handlers": (handler("m" * 256),)}, "malformed"),
        ({"handlers": tuple(handler(f"m{n}") for n in range(1_001))}, "malformed"),
        ({"boot": "b1"}, "malformed"),
        ({"boot": "0192F8E0-0000-7000-8000-000000000000"}, "malformed"),
        ({"boot": "a4e8c1b2-3f5d-4c6e-9a7b-8c9d0e1f2a3b"}, "malformed"),
    ],
)
def test_a_hello_that_cannot_be_taken(
    partitions: Partitions, changes: dict[str, object], expected: str
) -> None:
    assert reason(partitions, msgspec.structs.replace(hello(), **changes)) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (hello("w", "", "gpu", "mail", "crm.call"), "welcome"),
        (hello("w", "", "default", "mail"), "not_allowed"),
        (hello("w", "", "gpu", "mail", "chat"), "not_allowed"),
    ],
)
def test_a_token_names_pools_and_types(partitions: Partitions, said: Hello, expected: str) -> None:
    assert reason(partitions, said, NARROW) == expected


def test_the_stage_is_told_whose_jobs_a_worker_may_run(partitions: Partitions) -> None:
    partitions.dial(hello("w", "", "gpu"), NARROW)
    partitions.taken()
    assert partitions.roster.calls[0][-1] == frozenset({"acme"})


def test_a_later_boot_takes_the_place_of_an_earlier_one(partitions: Partitions) -> None:
    earlier, later = boot(), boot()
    first, old_id = partitions.welcomed("w1", earlier)
    first.send(order(0, 1))
    _, new_id = partitions.welcomed("w1", later)
    (refused,) = first.receive()
    assert isinstance(refused, Refused)
    assert refused.reason == "replaced"
    assert [call[:2] for call in partitions.roster.calls] == [
        ("connected", old_id),
        ("gone", old_id),
        ("connected", new_id),
    ]


def test_the_commands_of_an_earlier_boot_are_processed_all_the_same(
    partitions: Partitions,
) -> None:
    first, _ = partitions.welcomed("w1", boot())
    first.send(order(0, 1))
    partitions.dial(hello("w1"))
    assert partitions.numbers() == [("w1", 0, 1)]


def test_an_earlier_boot_does_not_come_back(partitions: Partitions) -> None:
    earlier, later = boot(), boot()
    current, _ = partitions.welcomed("w1", later)
    assert reason(partitions, hello("w1", earlier)) == "replaced"
    assert not current.ended


def test_nobody_takes_the_place_of_a_worker_with_another_token(partitions: Partitions) -> None:
    """A worker's name and boot are no secret: its leases name them."""
    same = boot()
    victim = partitions.dial(hello("w1", same))
    thief = partitions.dial(hello("w1", same), replace(ALL, id="tok_2"))
    assert not victim.ended
    (theirs,), (own,) = thief.receive(), victim.receive()
    assert isinstance(theirs, Welcome)
    assert isinstance(own, Welcome)
    assert theirs.worker_id == f"default:w1@tok_2/{same}"
    assert own.worker_id == f"default:w1/{same}"


def test_workers_of_two_pools_have_two_names(partitions: Partitions) -> None:
    """Together, the names of pool and worker are the same text, but for the sign between them."""
    first = partitions.dial(hello("b-c", pool="gpu"))
    second = partitions.dial(hello("c", pool="gpu-b"))
    assert not first.ended
    assert not second.ended
    (one,), (two,) = first.receive(), second.receive()
    assert isinstance(one, Welcome)
    assert isinstance(two, Welcome)
    assert one.worker_id.partition("/")[0] != two.worker_id.partition("/")[0]


@pytest.mark.parametrize(
    "said",
    [
        hello(pool="p" * 1_000_000),
        hello("w", "", "gpu", *(f"{n:0255}" for n in range(1_000))),
        msgspec.structs.replace(hello(), version=2**60),
    ],
    ids=["pool", "types", "version"],
)
def test_a_refusal_quotes_little_of_what_a_worker_sent(partitions: Partitions, said: Hello) -> None:
    """It stands in the owner's log, too."""
    (refused,) = partitions.dial(said, NARROW).receive()
    assert isinstance(refused, Refused)
    assert len(refused.message) <= 500


@pytest.mark.parametrize(
    "odd",
    [
        Handler("mail", 5, (1.0,), 1e300),
        Handler("mail", 5, (1.0, -1.0), 300.0),
        Handler("mail", 2**62, (1.0,), 300.0),
        Handler("mail", 5, (1.0,), 300.0, "x" * 1_001),
        Handler("mail", 5, (1.0,) * 101, 300.0),
    ],
)
def test_a_policy_with_which_a_stage_cannot_count_is_refused(
    partitions: Partitions, odd: Handler
) -> None:
    said = msgspec.structs.replace(hello(), handlers=(odd,))
    assert reason(partitions, said) == "malformed"

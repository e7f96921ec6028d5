"""The verdict over dedup under load tells its faults from copies that a producer makes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from support.dedup_verdict import Violation, duplicates_counted
from support.flood import delivery

from streams.serde.codec import DUPLICATE, ENVELOPE
from streams.serde.records import Duplicate


class Count:
    """A record of `duplicates`: how often an event came again."""

    def __init__(self, event: int, count: int) -> None:
        self._key = delivery(event).fingerprint
        self._value = DUPLICATE.encode(Duplicate("tnt_0000", count, 1, 2, None))

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes:
        return self._value


FIRST, AGAIN, OTHER = (ENVELOPE.encode(delivery(event)) for event in (0, 0, 1))
SENT = Counter({delivery(0).fingerprint: 2, delivery(1).fingerprint: 1})


def found(arrived: list[bytes], *counts: Count) -> list[tuple[str, str]]:
    told: list[Any] = list(counts)
    violations: list[Violation] = list(duplicates_counted(SENT, arrived, told))
    return [(violation.what, violation.where) for violation in violations]


def test_each_delivery_once_and_counted_is_no_fault() -> None:
    assert found([FIRST, AGAIN, OTHER], Count(0, 1)) == []


def test_a_batch_that_a_killed_broker_had_stored_and_its_producer_sent_again_is_no_fault() -> None:
    assert found([FIRST, AGAIN, OTHER, FIRST, OTHER], Count(0, 2), Count(1, 1)) == []


def test_a_copy_that_dedup_does_not_count_is_its_fault() -> None:
    assert found([FIRST, AGAIN, OTHER, OTHER], Count(0, 1)) == [("miscounted", "duplicates")]


def test_a_delivery_that_did_not_arrive_is_missed_even_among_copies() -> None:
    assert found([FIRST, FIRST, OTHER], Count(0, 1)) == [("miscounted", "events.received")]

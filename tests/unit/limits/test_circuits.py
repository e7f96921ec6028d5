"""The circuit of a tool: closed, open, and tried by one call at a time."""

from __future__ import annotations

from math import inf

import pytest

from streams.limits.buckets import CIRCUIT, Bucket
from streams.limits.circuits import Circuit, Circuits
from streams.topology.breakers import Breaker

BUCKET = Bucket(CIRCUIT, "", "pay")
BREAKER = Breaker("pay*", failures=3, seconds=60, open_seconds=30)


def after(*told: tuple[float, bool]) -> Circuits:
    """The circuits after calls, as moments and whether the call failed."""
    circuits = Circuits((BREAKER,))
    for now, failed in told:
        circuits.set("pay", circuits.after("pay", failed=failed, now=now))
    return circuits


@pytest.mark.parametrize(
    ("told", "is_open"),
    [
        ([(0, True), (1, True)], False),
        ([(0, True), (1, True), (59, True)], True),
        ([(0, True), (1, True), (60, True)], False),
        ([(0, True), (1, False), (2, True), (3, True)], True),
        ([(0, True), (50, True), (61, True), (62, True)], True),
    ],
)
def test_it_opens_after_so_many_failures_in_its_time(
    told: list[tuple[float, bool]], is_open: bool
) -> None:
    circuits = after(*told)
    assert (circuits.room(BUCKET, 0, told[-1][0]) == 0) == is_open
    assert bool(circuits.bucket("pay")) == is_open


def test_one_call_at_a_time_tries_it_once_its_time_is_over() -> None:
    circuits = after((0, True), (0, True), (0, True))
    rooms = [
        circuits.room(BUCKET, under_way, now) for under_way, now in ((0, 29.9), (0, 30), (1, 30))
    ]
    assert (rooms, circuits.next_try_at(BUCKET)) == ([0, 1, 0], 30)


@pytest.mark.parametrize(
    ("told", "until"),
    [
        ((10, True), 30),
        ((30, True), 60),
        ((45, True), 75),
        ((10, False), None),
        ((31, False), None),
    ],
)
def test_a_failed_try_opens_it_again_and_a_call_that_is_done_closes_it(
    told: tuple[float, bool], until: float | None
) -> None:
    circuits = after((0, True), (0, True), (0, True), told)
    assert circuits.get("pay") == (None if until is None else Circuit((), until))
    assert circuits.room(BUCKET, 5, told[0]) == (inf if until is None else 0)


def test_tools_without_a_breaker_never_open_and_the_first_breaker_counts() -> None:
    circuits = Circuits((Breaker("pay", failures=1), Breaker("*", failures=2)))
    assert circuits.breaker("pay") == Breaker("pay", failures=1)
    assert circuits.breaker("other") == Breaker("*", failures=2)
    assert Circuits((BREAKER,)).after("mail", failed=True, now=0) is None

"""Positions of readers: what goes in comes out, and nothing else passes for one."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.api.live.frames import Frame, Place
from streams.api.live.position import (
    TOPICS,
    MalformedPosition,
    Position,
    read_position,
    subject_digest,
)
from streams.api.live.tickets import LIFETIME_SECONDS, Tickets
from streams.vault.key_encryption import local_vault

DIGEST = subject_digest("jobs", ["job_a"])
NUMBERS = st.integers(0, 2**63 - 1)
VECTORS = st.lists(NUMBERS, min_size=len(TOPICS), max_size=len(TOPICS))


@given(NUMBERS, st.sets(st.integers(0, 99)), st.dictionaries(st.integers(0, 200), VECTORS))
def test_a_position_is_read_as_it_was_written(
    at: int, ended: set[int], offsets: dict[int, list[int]]
) -> None:
    position = Position(DIGEST, at, ended, offsets)
    text = str(position)
    if len(text) <= 4_096:
        assert read_position(text) == position


@given(st.binary(max_size=60))
def test_what_is_read_is_written_the_same(raw: bytes) -> None:
    try:
        text = raw.decode()
        assert str(read_position(text)) == text
    except (MalformedPosition, UnicodeDecodeError):
        pass


@given(st.text(max_size=80))
def test_no_text_raises_anything_else(text: str) -> None:
    with suppress(MalformedPosition):
        assert str(read_position(text)) == text


def test_a_position_that_was_cut_or_lengthened_is_malformed() -> None:
    text = str(Position(DIGEST, 7, {0}, {2: [1, 2, 3, 4, 5, 300]}))
    for cut in range(len(text)):
        with pytest.raises(MalformedPosition):
            read_position(text[:cut])
    for more in ("A", "AA", "AAAA", "=", " "):
        with pytest.raises(MalformedPosition):
            read_position(text + more)


def test_a_frame_moves_its_own_topic_alone_and_never_back() -> None:
    position = Position(DIGEST)
    position.see(Frame("token", None, Place(1, 1, 9)))
    position.see(Frame("token", None, Place(1, 1, 3)))
    assert (position.of(1, 1), position.of(1, 0), position.of(0, 1)) == (10, 0, 0)


def test_a_ticket_is_for_its_subject_once_and_for_its_time() -> None:
    now = 1_000_000
    vault, another = local_vault(b"k" * 32), local_vault(b"o" * 32)
    tickets, other = Tickets(vault, lambda: now), Tickets(another, lambda: now)
    ticket = tickets.issue(DIGEST, "token:t")
    assert not other.take(ticket, DIGEST)
    assert not tickets.take(ticket, subject_digest("jobs", ["job_b"]))
    assert not tickets.take(ticket[:-1], DIGEST)
    assert tickets.take(ticket, DIGEST) == "token:t"
    assert not tickets.take(ticket, DIGEST)
    late = tickets.issue(DIGEST, "token:t")
    now += LIFETIME_SECONDS * 1000
    assert not tickets.take(late, DIGEST)
    assert Tickets(vault, lambda: now - 1).take(late, DIGEST), "every replica knows it"

"""The room for bodies in flight, and who finds a place in it."""

from __future__ import annotations

import pytest

from ingress.body import SMALL_BYTES, Room
from ingress.problems import BUSY, Refused

MIB = 1024 * 1024


def test_large_bodies_leave_an_eighth_to_small_ones() -> None:
    room = Room(8 * MIB)
    with room.share() as large, room.share() as another, room.share() as small:
        large.grow(7 * MIB)
        another.grow(SMALL_BYTES)
        with pytest.raises(Refused) as refused:
            another.grow(SMALL_BYTES + 1)
        assert refused.value.problem is BUSY
        small.grow(SMALL_BYTES)


def test_a_share_is_given_back_at_its_end() -> None:
    room = Room(SMALL_BYTES)
    with room.share() as first, room.share() as second:
        first.grow(SMALL_BYTES)
        with pytest.raises(Refused):
            second.grow(1)
    with room.share() as third:
        third.grow(SMALL_BYTES)

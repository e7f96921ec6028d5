"""The room for bodies in flight, and who finds a place in it."""

from __future__ import annotations

import pytest

from ingress.http.body import SMALL_BYTES, Room
from ingress.http.problems import BUSY, Refused

MIB = 1024 * 1024


@pytest.mark.parametrize("declared", [None, SMALL_BYTES + 1])
def test_large_bodies_leave_an_eighth_to_small_ones(declared: int | None) -> None:
    """Also their first bytes do, and a body without a declared length may be a large one."""
    room = Room(8 * MIB)
    with room.share(declared) as large, room.share(declared) as another:
        large.grow(7 * MIB)
        with pytest.raises(Refused) as refused:
            another.grow(1)
        assert refused.value.problem is BUSY
        with room.share(SMALL_BYTES) as small:
            small.grow(SMALL_BYTES)


def test_a_share_is_given_back_at_its_end() -> None:
    room = Room(SMALL_BYTES)
    with room.share(1) as first, room.share(1) as second:
        first.grow(SMALL_BYTES)
        with pytest.raises(Refused):
            second.grow(1)
    with room.share(1) as third:
        third.grow(SMALL_BYTES)

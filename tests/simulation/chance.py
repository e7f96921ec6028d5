"""Everything random in a seed comes from here, so that a seed is the same each time.

Each question has a die of its own, named by what it decides: a story with an operation less asks
the same questions with the same answers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from streams.serde import ids


class Dice:
    """Dice by name."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def of(self, *what: object) -> random.Random:
        return random.Random(f"{self._seed}/{'/'.join(map(str, what))}")

    def chance(self, share: float, *what: object) -> bool:
        return self.of(*what).random() < share


@contextmanager
def certain(seed: int) -> Iterator[None]:
    """The product's ids and jitter follow the seed."""
    made = 0

    def uuid7() -> str:
        nonlocal made
        made += 1
        return ordered_id(0, made)

    real = vars(ids)["uuid7"]
    vars(ids)["uuid7"] = uuid7
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        vars(ids)["uuid7"] = real
        random.setstate(state)


def ordered_id(ms: int, number: int) -> str:
    """Looks like a UUIDv7: ordered by time, then by number."""
    time = f"{ms:012x}"
    return f"{time[:8]}-{time[8:]}-7000-8000-{number:012x}"

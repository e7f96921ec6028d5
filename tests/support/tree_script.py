"""What a job of a random tree does, drawn from the salt in its input: the same in each run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any


@dataclass(frozen=True, slots=True)
class Size:
    """How many levels a tree has below its root, and how many jobs one gather may have."""

    levels: int = 3
    counts: tuple[int, ...] = (0, 0, 3, 7)


class TreeScript:
    """What the runs of one life of a job do, by its data: `salt`, `level` and `turn`.

    It asks for a job by each of its `calls`, sleeps for `nap` seconds, gathers a list of `count`
    jobs, awaits the ends of those that are `awaited`, and begins anew if it `continues`. Unless it
    `bears` failures, it fails with the jobs that it waits for.
    """

    def __init__(self, data: Mapping[str, Any], size: Size) -> None:
        self._data = data
        self.salt: str = data["salt"]
        self._level: int = data.get("level", 0)
        chance = Random(self.salt)
        self.has_room = self._level < size.levels
        self.calls = [f"c{n}" for n in range(chance.choice((0, 1, 2)) if self.has_room else 0)]
        self.abandoned = [call for call in self.calls if chance.random() < 0.2]
        self.awaited = [call for call in self.calls if chance.random() < 0.7]
        self.count = chance.choice(size.counts) if self.has_room else 0
        self.limit = chance.choice((1, 2, 50))
        self.tolerated = chance.choice((0, 0, 1, self.count))
        self.nap = chance.choice((0, 0, 0, 3, 60))
        self.bears = chance.random() < 0.3
        self.continues = chance.random() < 0.15 and data.get("turn", 0) < 2

    def below(self, name: str) -> dict[str, Any]:
        """The data of the job that a call of this name asks for."""
        return {"salt": f"{self.salt}/{name}", "level": self._level + 1}

    def next_turn(self) -> dict[str, Any]:
        """The data of the job's next life."""
        turn = self._data.get("turn", 0) + 1
        return {**self._data, "salt": f"{self.salt}+{turn}", "turn": turn}

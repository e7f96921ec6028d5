"""The part of the log that the stage reads again, as it asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from streams.runtime.processor import Record

SLACK_MS = 60_000
"""How much earlier to begin and later to end: times are not in the order of offsets in `jobs`."""


@dataclass(frozen=True, slots=True)
class Part:
    """Records of one topic, the offset behind them, and whether they were the last for now."""

    records: Sequence[Record]
    position: int
    done: bool


class History(Protocol):
    """Reads a partition of an input again."""

    def read(self, topic: str, partition: int, since: int, offset: int) -> Part | None:
        """Records from an offset on or, if it is -1, from a time in milliseconds on.

        The first call begins to read and returns None; call it again until there is a part. A topic
        is done at the end that it had when its reading began, or later.
        """

    def forget(self, partition: int) -> None:
        """Drop what is being read for a partition: the next `read` finds the topic's end anew."""

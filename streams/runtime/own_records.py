"""What a transaction of a fused stage wrote to an input of its own, and whether it may pass it by.

Such a record was handled when it was forwarded, so reading it again would be work for nothing. Its
position moves past it without reading, but only where every offset up to it is known to be a record
that was taken, or the mark that ends an own transaction. Everything else is read: records of
another producer, those of aborted transactions, and own ones that were not taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple


class Written(NamedTuple):
    """The records that a transaction wrote to one partition: `number` of them, `first` to `last`.

    From offset `begin` to `first` there are only marks of this process's own transactions.
    """

    begin: int
    first: int
    last: int
    number: int


NOTHING: Mapping[str, Written] = MappingProxyType({})


class OwnMarks:
    """Where one process's transactions ended in its own inputs.

    Kafka ends a transaction by one mark in each partition, before the next one of that process may
    write there. So if one offset lies between two of its transactions, that is the mark.
    """

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int], int] = {}

    def written(self, partition: int, offsets: Mapping[str, Sequence[int]]) -> dict[str, Written]:
        """What a committed transaction wrote at these ascending offsets, by logical topic."""
        found = {}
        for topic, own in offsets.items():
            first, last = own[0], own[-1]
            end = self._ends.get((topic, partition), first)
            found[topic] = Written(end if first == end + 1 else first, first, last, len(own))
            self._ends[topic, partition] = last + 1
        return found


def reach(position: int, written: Written, taken: int) -> int:
    """The position after the written records if all are taken; else the position as it is.

    `taken` is how many of them were handled when they were forwarded.
    """
    joins = written.begin <= position <= written.first
    whole = written.last - written.first + 1 == written.number == taken
    return written.last + 1 if joins and whole else position

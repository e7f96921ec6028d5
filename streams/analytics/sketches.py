"""Two summaries of many values in little space, both independent of the values' order.

Adding the same values in any order, or merging the summaries of their parts, gives the same bytes.
So tables that were counted twice over, from any offset, can be compared exactly.
"""

from __future__ import annotations

import math
from collections import Counter
from hashlib import blake2b

_GROWTH = 1.04
_LOG_GROWTH = math.log(_GROWTH)


class Histogram:
    """Durations in buckets whose bounds grow by 4 %: a quantile is within 2 % of the true one.

    The buckets are those of DDSketch (Masson, Rim and Lee, VLDB 2019), without its collapsing:
    from a millisecond to a year there are 612. Values can also be removed.
    """

    __slots__ = ("buckets",)

    def __init__(self, buckets: dict[int, int] | None = None) -> None:
        self.buckets = buckets or {}

    def add(self, milliseconds: int, times: int = 1) -> None:
        """Add a duration, or remove one with `times=-1`; all below 1 ms count as 1 ms."""
        bucket = math.ceil(math.log(max(1, milliseconds)) / _LOG_GROWTH)
        self.merge({bucket: times})

    def merge(self, buckets: dict[int, int]) -> None:
        """Add the counts of another histogram."""
        for bucket, number in buckets.items():
            total = self.buckets.get(bucket, 0) + number
            if total:
                self.buckets[bucket] = total
            else:
                self.buckets.pop(bucket, None)

    @property
    def count(self) -> int:
        """How many durations it holds."""
        return sum(self.buckets.values())

    def quantile(self, share: float) -> float | None:
        """The duration in milliseconds that `share` of all do not exceed; None without any."""
        rank = math.ceil(share * self.count)
        for bucket, number in sorted(self.buckets.items()):
            rank -= number
            if rank <= 0:
                return float(2 * _GROWTH**bucket / (_GROWTH + 1)) if bucket else 1.0
        return None


_INDEX_BITS = 12
_REGISTERS = 1 << _INDEX_BITS
_REST_BITS = 64 - _INDEX_BITS
_ENTRY = 3
_ALPHA = 1 / (2 * math.log(2))


_FEW = 64
"""Up to so many registers, a dictionary takes less memory than an array of all."""


class Distinct:
    """How many different texts there were: a HyperLogLog of 4,096 registers.

    Its standard error is 1.6 %, without bias at any number (Ertl, "New cardinality estimation
    algorithms for HyperLogLog sketches", 2017). It takes about 4 KiB at most, in memory and
    encoded: 3 bytes for each text while there are few.
    """

    __slots__ = ("_ranks",)

    def __init__(self) -> None:
        self._ranks: dict[int, int] | bytearray = {}

    def add(self, *parts: str) -> None:
        """Count one text, given in parts that together make it unique."""
        digest = blake2b("\0".join(parts).encode(), digest_size=8).digest()
        number = int.from_bytes(digest)
        rest = number & ((1 << _REST_BITS) - 1)
        self._raise(number >> _REST_BITS, _REST_BITS - rest.bit_length() + 1)

    def merge(self, other: Distinct) -> None:
        """Count the texts of another one, too."""
        if isinstance(other._ranks, bytearray):
            self._ranks = bytearray(map(max, self._all(), other._ranks))
        else:
            for index, rank in other._ranks.items():
                self._raise(index, rank)

    @property
    def estimate(self) -> int:
        """The number of different texts, about."""
        ranks = Counter(self._all())
        total = _REGISTERS * _tau(1 - ranks[_REST_BITS + 1] / _REGISTERS)
        for rank in range(_REST_BITS, 0, -1):
            total = (total + ranks[rank]) / 2
        total += _REGISTERS * _sigma(ranks[0] / _REGISTERS)
        return round(_ALPHA * _REGISTERS * _REGISTERS / total)

    def encode(self) -> bytes:
        """Its bytes: index and rank of the registers in use, or the ranks of all."""
        if isinstance(self._ranks, bytearray):
            if (_REGISTERS - self._ranks.count(0)) * _ENTRY >= _REGISTERS:
                return bytes(self._ranks)
            used = [(index, rank) for index, rank in enumerate(self._ranks) if rank]
        else:
            used = sorted(self._ranks.items())
        return b"".join(index.to_bytes(2) + bytes([rank]) for index, rank in used)

    @classmethod
    def decode(cls, raw: bytes) -> Distinct:
        """What `encode` wrote."""
        made = cls()
        if len(raw) == _REGISTERS:
            made._ranks = bytearray(raw)
            return made
        for at in range(0, len(raw), _ENTRY):
            made._raise(int.from_bytes(raw[at : at + 2]), raw[at + 2])
        return made

    def _all(self) -> bytearray:
        """The ranks of all registers, 0 for those that are not in use."""
        if isinstance(self._ranks, bytearray):
            return self._ranks
        ranks = bytearray(_REGISTERS)
        for index, rank in self._ranks.items():
            ranks[index] = rank
        return ranks

    def _raise(self, index: int, rank: int) -> None:
        ranks = self._ranks
        if isinstance(ranks, bytearray):
            ranks[index] = max(ranks[index], rank)
        elif rank > ranks.get(index, 0):
            ranks[index] = rank
            if len(ranks) > _FEW:
                self._ranks = self._all()


def _sigma(unused: float) -> float:
    """What the share of registers without a text adds; infinite if all are (Ertl, algorithm 6)."""
    if unused == 1:
        return math.inf
    found, before, weight = unused, -1.0, 1.0
    while found != before:
        unused *= unused
        found, before, weight = found + unused * weight, found, weight * 2
    return found


def _tau(used: float) -> float:
    """What the share of registers below the highest rank adds (Ertl, algorithm 6)."""
    if used in (0, 1):
        return 0.0
    found, before, weight = 1 - used, -1.0, 1.0
    while found != before:
        used, weight = math.sqrt(used), weight / 2
        found, before = found - (1 - used) ** 2 * weight, found
    return found / 3

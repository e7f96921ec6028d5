"""Keeps the values that were used last, within a number of bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ENTRY_BYTES = 512
"""What an entry costs beside its content: a tuple with two ids, the value's own head, and a place
in an ordered dict take about 350 bytes, and a dict that grows holds its places twice."""


class BoundedCache(Generic[K, V]):
    """Values by key; forgets the one that was not used for longest if they cost too much."""

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def __contains__(self, key: object) -> bool:
        return key in self._kept

    def get(self, key: K) -> V | None:
        """The value of a key, which counts as used now."""
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def put(self, key: K, value: V, content_bytes: int) -> None:
        """Keep a value; `content_bytes` is what key and value have beyond an empty entry."""
        cost = ENTRY_BYTES + content_bytes
        _, before = self._kept.pop(key, (None, 0))
        self._kept[key] = value, cost
        self._left += before - cost
        while self._left < 0:
            _, (_, freed) = self._kept.popitem(last=False)
            self._left += freed

    def clear(self) -> None:
        self._left += sum(cost for _, cost in self._kept.values())
        self._kept.clear()

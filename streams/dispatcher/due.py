"""Key spaces in the order of time: what is due is at the beginning."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from streams.serde.keys import join, split
from streams.state.store import KeyValueStore

_TIME = struct.Struct(">Q")


class DueEntry(NamedTuple):
    """An entry whose time (milliseconds) has come: its key, the parts of its name, its value."""

    key: bytes
    at: int
    name: list[str]
    value: bytes


class DueSpace:
    """The entries under one prefix; a key is prefix, time and name."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix

    def key(self, at: int, *name: str) -> bytes:
        """The key of what is due `at` (milliseconds)."""
        return self._prefix + _TIME.pack(at) + join(*name)

    def due(
        self, store: KeyValueStore, now: int, limit: int, behind: bytes = b""
    ) -> Iterator[DueEntry]:
        """At most `limit` entries that are due, after the key `behind`.

        Name the last key that was deleted: before it are tombstones, which the store would walk
        over each time.
        """
        start = behind + b"\0" if behind else self._prefix
        found = store.range(start, self._prefix + _TIME.pack(now + 1))
        for key, value in list(islice(found, limit)):
            yield self.entry(key, value)

    def entry(self, key: bytes, value: bytes) -> DueEntry:
        """What a key of this space and its value say."""
        head = len(self._prefix)
        at = _TIME.unpack_from(key, head)[0]
        return DueEntry(key, at, split(key[head + _TIME.size :]), value)

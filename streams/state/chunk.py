"""Many changes in one changelog record, for stores with small entries that none reads by key there.

A chunk is runs of changes whose keys are of one size, and whose values: how many, the two sizes
(`>III`; of deletions the second is 2**32 - 1), the keys, the values. The record's key is a digest
of it, so that compaction, which keeps the last record of each key, keeps every chunk.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import blake2b
from itertools import groupby, islice, repeat

from streams.state.store import Changes

MARK = b"chunk:"
"""How a chunk's key begins; its digest, of 16 bytes, follows."""
_RUN = struct.Struct(">III")
_DELETED = 2**32 - 1
_MOST = 4_096
"""Of some 40 bytes each: far below what a record may hold."""


def chunks(changes: Changes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of the records that tell these changes, in their order."""
    left = iter(changes.items())
    while some := list(islice(left, _MOST)):
        body = b"".join(_pieces(some))
        yield MARK + blake2b(body, digest_size=16).digest(), body


def changes_in(body: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """What one chunk tells, in its order."""
    at = 0
    while at < len(body):
        number, key_size, value_size = _RUN.unpack_from(body, at)
        at += _RUN.size
        keys = _cut(body, at, number, key_size)
        at += number * key_size
        if value_size == _DELETED:
            yield from zip(keys, repeat(None))
            continue
        yield from zip(keys, _cut(body, at, number, value_size), strict=True)
        at += number * value_size


def _pieces(changes: list[tuple[bytes, bytes | None]]) -> Iterator[bytes]:
    for (key_size, value_size), run in groupby(changes, _sizes):
        keys, values = zip(*run, strict=True)
        yield _RUN.pack(len(keys), key_size, value_size)
        yield from keys
        if value_size != _DELETED:
            yield from values


def _sizes(change: tuple[bytes, bytes | None]) -> tuple[int, int]:
    key, value = change
    return len(key), _DELETED if value is None else len(value)


def _cut(body: bytes, at: int, number: int, size: int) -> list[bytes]:
    if not size:
        return [b""] * number
    return [body[i : i + size] for i in range(at, at + number * size, size)]

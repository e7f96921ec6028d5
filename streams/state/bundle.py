"""Packs many changes into one changelog record, for stores whose changelog is never searched.

A bundle consists of runs. All keys of a run have one size, and all values of it have one size. A
run is written as the number of changes and the two sizes (`>III`; for deletions the second size is
2**32 - 1), then the keys, then the values. The record's key is a digest of the bundle, so that
compaction, which keeps the last record of each key, keeps every bundle.

A single put is written under its own key, as in any changelog, because that is smaller. A single
deletion is written as a bundle: compaction would one day forget a plain one, and an older bundle
would bring the entry back.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import chain, groupby, repeat

from streams.state.store import Changes

_MARK = b"bundle:"
"""How a bundle's key begins, and no other record's; its digest of 16 bytes follows."""
_RUN = struct.Struct(">III")
_DELETED = 2**32 - 1
_MOST = 4_096
"""The most changes in a bundle; at about 40 bytes each, it stays far below a record's limit."""


def bundles(changes: Changes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of the records that hold these changes, in their order."""
    keys, values = list(changes), list(changes.values())
    if len(values) == 1 and values[0] is not None and not keys[0].startswith(_MARK):
        yield keys[0], values[0]
        return
    for at in range(0, len(keys), _MOST):
        some = slice(at, at + _MOST)
        body = b"".join(_pieces(keys[some], values[some]))
        yield _MARK + blake2b(body, digest_size=16).digest(), body


def changes_in(key: bytes, value: bytes | None) -> Iterable[tuple[bytes, bytes | None]]:
    """The changes in one record, in its order."""
    if not key.startswith(_MARK):
        return [(key, value)]
    return chain.from_iterable(_runs(value or b""))


def _pieces(keys: list[bytes], values: list[bytes | None]) -> list[bytes]:
    value_sizes = [_DELETED if value is None else len(value) for value in values]
    pieces: list[bytes] = []
    begin = 0
    for sizes, run in groupby(zip(map(len, keys), value_sizes, strict=True)):
        end = begin + len(list(run))
        pieces.append(_RUN.pack(end - begin, *sizes))
        pieces += keys[begin:end]
        pieces += filter(None, values[begin:end])  # an empty value has no bytes either
        begin = end
    return pieces


def _runs(body: bytes) -> Iterator[Iterable[tuple[bytes, bytes | None]]]:
    at = 0
    while at < len(body):
        number, key_size, value_size = _RUN.unpack_from(body, at)
        at += _RUN.size
        keys = _cut(body, at, number, key_size)
        at += number * key_size
        if value_size == _DELETED:
            yield zip(keys, repeat(None))
            continue
        yield zip(keys, _cut(body, at, number, value_size), strict=True)
        at += number * value_size


def _cut(body: bytes, at: int, number: int, size: int) -> list[bytes]:
    if not size:
        return [b""] * number
    return [body[i : i + size] for i in range(at, at + number * size, size)]

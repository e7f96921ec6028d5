"""What a partition holds of shared limits, and what it hands out of those it owns, in `parts`.

Under `h` limit value lies what this partition holds, under `t` limit value partition what another
one (or this) has of a bucket that this one owns, and under `i` the number of the last incarnation.
Limit and value have their lengths before them, so they may hold any characters.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import astuple

from streams.limits.buckets import Bucket
from streams.limits.permits import Holding
from streams.limits.sharing import Share
from streams.serde.keys import after
from streams.state.store import KeyValueStore

_HELD, _SHARED, _INCARNATION = b"h", b"t", b"i"
KEYS_OF_HOLDER = {
    _HELD: "permits of shared limits that this partition holds",
    _INCARNATION: "the number of the last holding that began",
}
KEYS_OF_OWNER = {_SHARED: "permits of shared limits that this partition handed out"}
_LENGTH = struct.Struct(">H")
_PARTITION = struct.Struct(">I")
_NUMBER = struct.Struct(">Q")
_HOLDING = struct.Struct(">QQQQII")
_SHARE = struct.Struct(">QQQQIIQ")


def bucket_key(bucket: Bucket) -> bytes:
    """A bucket as a key, of a row or of a record."""
    parts = (part.encode() for part in (bucket.limit, bucket.key))
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def hold(store: KeyValueStore, bucket: Bucket, holding: Holding | None) -> None:
    """Keep what this partition holds of a bucket; None: nothing any more."""
    key = _HELD + bucket_key(bucket)
    if holding is None:
        store.delete(key)
    else:
        store.put(key, _HOLDING.pack(*astuple(holding)))


def holdings(store: KeyValueStore) -> Iterator[tuple[Bucket, Holding]]:
    """Yield all that this partition holds."""
    for key, value in store.range(_HELD, after(_HELD)):
        yield _bucket(key)[0], Holding(*_HOLDING.unpack(value))


def next_incarnation(store: KeyValueStore, now: int) -> int:
    """The number of a new holding: higher than any before, also if the store was lost."""
    last = store.get(_INCARNATION)
    number = max(now, 0 if last is None else _NUMBER.unpack(last)[0] + 1)
    store.put(_INCARNATION, _NUMBER.pack(number))
    return number


def share(store: KeyValueStore, bucket: Bucket, holder: int) -> Share | None:
    """What a partition has of a bucket, as far as its owner knows."""
    value = store.get(_shared(bucket, holder))
    return None if value is None else Share(*_SHARE.unpack(value))


def give(store: KeyValueStore, bucket: Bucket, holder: int, given: Share | None) -> None:
    """Keep what a partition has of a bucket; None: nothing any more."""
    key = _shared(bucket, holder)
    if given is None:
        store.delete(key)
    else:
        store.put(key, _SHARE.pack(*astuple(given)))


def shares(store: KeyValueStore, bucket: Bucket) -> dict[int, Share]:
    """All that partitions have of a bucket."""
    prefix = _SHARED + bucket_key(bucket)
    found = store.range(prefix, after(prefix))
    return {_bucket(key)[1]: Share(*_SHARE.unpack(value)) for key, value in found}


def owned(store: KeyValueStore, behind: Bucket | None = None) -> Iterator[Bucket]:
    """Yield the buckets of which partitions have something, after the bucket `behind`."""
    start = _SHARED if behind is None else after(_SHARED + bucket_key(behind))
    for key, _ in store.range(start, after(_SHARED)):
        bucket = _bucket(key)[0]
        if bucket != behind:
            behind = bucket
            yield bucket


def _shared(bucket: Bucket, holder: int) -> bytes:
    return _SHARED + bucket_key(bucket) + _PARTITION.pack(holder)


def _bucket(key: bytes) -> tuple[Bucket, int]:
    """The bucket of a row, and the partition that it is about (0 if it names none)."""
    parts, at = [], 1
    for _ in range(2):
        (length,) = _LENGTH.unpack_from(key, at)
        at += _LENGTH.size + length
        parts.append(key[at - length : at].decode())
    holder = _PARTITION.unpack_from(key, at)[0] if at < len(key) else 0
    return Bucket(parts[0], "", parts[1]), holder

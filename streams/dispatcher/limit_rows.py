"""What a partition's limits have spent of their rates, in the store `parts`.

Under `L` limit tenant value lies a bucket's arrival time (`limits.rates`) as milliseconds of the
machine's clock. Each part of the key has its length before it, so it may hold any characters.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from streams.limits.buckets import Bucket
from streams.serde.keys import after
from streams.state.store import KeyValueStore

_SPENT = b"L"
KEYS = {_SPENT: "what was spent of rates"}
_LENGTH = struct.Struct(">H")
_ARRIVAL = struct.Struct(">Q")


def put(store: KeyValueStore, bucket: Bucket, arrival: int) -> None:
    """Keep a bucket's arrival time (milliseconds)."""
    store.put(_key(bucket), _ARRIVAL.pack(arrival))


def delete(store: KeyValueStore, bucket: Bucket) -> None:
    """Forget a bucket whose burst is whole again."""
    store.delete(_key(bucket))


def all_of(store: KeyValueStore, behind: Bucket | None = None) -> Iterator[tuple[Bucket, int]]:
    """Yield the buckets with their arrival times, starting after the bucket `behind`."""
    start = _SPENT if behind is None else _key(behind) + b"\0"
    for key, value in store.range(start, after(_SPENT)):
        yield _bucket(key), _ARRIVAL.unpack(value)[0]


def _key(bucket: Bucket) -> bytes:
    parts = (part.encode() for part in bucket)
    return _SPENT + b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def _bucket(key: bytes) -> Bucket:
    parts, at = [], len(_SPENT)
    while at < len(key):
        (length,) = _LENGTH.unpack_from(key, at)
        at += _LENGTH.size + length
        parts.append(key[at - length : at].decode())
    return Bucket(*parts)

"""Remembers the records that were written last, so that they are not decoded again.

A record is looked up by its id *and* the bytes that its store holds now. So the cache is never
wrong, whatever was undone, restored or written by another process.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from streams.serde.codec import Codec

T = TypeVar("T")

_MOST = 1_000
_LARGEST_BYTES = 2048
"""A larger record is decoded each time. With the default `most` the two limits bound a cache to
about 4 MB of typical jobs, or 10 MB of the largest ones."""


class DecodedCache(Generic[T]):
    """Decodes and encodes the records of one partition, at most `most` of which it remembers."""

    def __init__(self, codec: Codec[T], most: int = _MOST) -> None:
        self._codec = codec
        self._most = most
        self._known: dict[str, tuple[bytes, T]] = {}

    def decode(self, id_: str, value: bytes) -> T:
        """The record in these bytes."""
        known = self._known.get(id_)
        return known[1] if known is not None and known[0] == value else self._codec.decode(value)

    def encode(self, id_: str, record: T) -> bytes:
        """The bytes of a record, which are likely to be decoded next."""
        value = self._codec.encode(record)
        self._known.pop(id_, None)
        if len(value) <= _LARGEST_BYTES:
            self._known[id_] = value, record
            if len(self._known) > self._most:
                del self._known[next(iter(self._known))]
        return value

    def forget(self, id_: str) -> None:
        """Forget a record that is hardly asked for any more."""
        self._known.pop(id_, None)

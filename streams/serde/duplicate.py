"""Encodes the record of a dropped duplicate by hand.

The bytes equal those of `DUPLICATE.encode`, at a sixth of its cost: dedup writes one record for
each duplicate, and in a vendor's replay nearly every delivery is one. Parts that repeat from record
to record (tenants, small numbers, all of a time but its last day) are cached.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from streams.serde.codec import DUPLICATE


def encode_duplicate(
    tenant_id: bytes,
    count: int,
    first_at: int,
    last_at: int,
    last_event_id: bytes | None,
    source: bytes | None = None,
    event_type: bytes | None = None,
) -> bytes:
    """Framed bytes; a tenant's bytes that are no text are replaced, other such texts left out.

    Numbers must not be negative.
    """
    head = _head(tenant_id) + _varint(count << 1) + _time(first_at) + _time(last_at)
    id_ = b"\0"
    if last_event_id is not None and last_event_id.isascii():
        id_ = b"\2" + _varint(len(last_event_id) << 1) + last_event_id
    return head + id_ + _text(source) + _text(event_type)


@lru_cache(65_536)
def _head(tenant_id: bytes) -> bytes:
    text = tenant_id.decode(errors="replace").encode()
    return struct.pack(">bI", 0, DUPLICATE.schema.id) + _varint(len(text) << 1) + text


@lru_cache(8_192)  # of senders' texts, which may be long
def _text(text: bytes | None) -> bytes:
    """An optional text; null for bytes that are none."""
    if text is None or not _is_text(text):
        return b"\0"
    return b"\2" + _varint(len(text) << 1) + text


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _time(milliseconds: int) -> bytes:
    zigzag = milliseconds << 1
    high = zigzag >> 28
    if not high:
        return _varint(zigzag)
    return _LOW[zigzag & 0x3FFF] + _LOW[zigzag >> 14 & 0x3FFF] + _varint(high)


_LOW = [bytes([bits & 0x7F | 0x80, bits >> 7 | 0x80]) for bits in range(1 << 14)]
"""The two low bytes of a number of which more bytes follow."""


@lru_cache(65_536)
def _varint(left: int) -> bytes:
    """Seven bits a byte, the lowest first (Avro 1.11, "Binary Encoding")."""
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)

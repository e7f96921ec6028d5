"""Flips bits of one batch in a broker's log, as a bad disk does, and mends them again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

_HEADER = 12
"""Offset and length of a batch, which no checksum covers (Kafka's record batch, version 2)."""
_MAGIC, _LAST = 16, -1

Part = Literal["magic", "records"]


@contextmanager
def damaged(
    data_dir: Path, topic: str, offset: int, part: Part = "records", *, partition: int = 0
) -> Iterator[int]:
    """The batch with this offset is damaged, and whole afterwards; yields its first offset."""
    (log,) = data_dir.rglob(f"{topic}-{partition}/00000000000000000000.log")
    first, start, end = _batch_with(offset, log.read_bytes())
    at = start + _MAGIC if part == "magic" else end + _LAST
    _flip(log, at)
    try:
        yield first
    finally:
        _flip(log, at)


def _batch_with(offset: int, data: bytes) -> tuple[int, int, int]:
    """Its first offset, and where it begins and ends."""
    found, start = (0, 0, 0), 0
    while start < len(data) and (first := int.from_bytes(data[start : start + 8])) <= offset:
        length = int.from_bytes(data[start + 8 : start + _HEADER])
        found = first, start, start + _HEADER + length
        start = found[2]
    return found


def _flip(log: Path, at: int) -> None:
    with log.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 0b1001]))

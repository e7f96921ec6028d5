"""A reader's position: everything that it has seen, as one text that any replica understands.

It is a vector: of each partition and each followed topic, the offset behind the last record that
the reader has seen. What has a smaller offset is never sent again. A position belongs to one
subject, of which it has a digest.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from streams.api.live.frames import Frame

JOBS: Final = 0
LIVE: Final = 1
PROGRESS: Final = 2
LEDGER: Final = 3
STEPS: Final = 4
WORKFLOWS: Final = 5
TOPICS = (
    "jobs",
    "jobs.live",
    "jobs.progress",
    "ledger",
    "dispatcher.checkpoints.changelog",
    "workflows",
)
"""The topics of a vector, at the places that the names above have."""
TOPIC_OF_JOBS = (TOPICS[JOBS],)

DIGEST_BYTES = 8
HOUR_MS = 3_600_000
_VERSION = 1
_MOST_BITS = 63
_LONGEST = 8_000
_VARINTS_KEPT = 8_192
"""Of the offsets of a position, all but one are those of the id before; and readers share them."""


class MalformedPosition(ValueError):
    """The text is no position."""


def subject_digest(kind: str, ids: Sequence[str]) -> bytes:
    """The digest of what is watched: a kind of subject, and its ids in any order."""
    told = "\0".join((kind, *sorted(set(ids))))
    return blake2b(told.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


@dataclass(slots=True)
class Position:
    """What a reader of one subject has seen.

    `hour` is when it was given out, or of the oldest record that may come behind it if that is
    older, in hours since the epoch: two replicas give the same one.
    `ended` has the numbers of the parts of the subject, in the order of their ids, whose end the
    reader was told.
    """

    digest: bytes
    hour: int = 0
    ended: set[int] = field(default_factory=set)
    offsets: dict[int, list[int]] = field(default_factory=dict)

    def of(self, partition: int, topic: int) -> int:
        """The first offset of a topic's partition that the reader has not seen."""
        return self.offsets[partition][topic] if partition in self.offsets else 0

    def see(self, frame: Frame) -> None:
        """Note that the reader has seen a frame, and of its topic all that it gets before it."""
        if frame.place is not None:
            vector = self.offsets.setdefault(frame.place.partition, [0] * len(TOPICS))
            vector[frame.place.topic] = max(vector[frame.place.topic], frame.place.offset + 1)
        if frame.part is not None:
            (self.ended.add if frame.event == "end" else self.ended.discard)(frame.part)

    def __str__(self) -> str:
        bits = sum(1 << number for number in self.ended)
        numbers = [_VERSION, self.hour, len(self.offsets)]
        for partition, vector in sorted(self.offsets.items()):
            numbers += [partition, *vector]
        raw = self.digest + b"".join(map(_varint, (*numbers, bits)))
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def read_position(text: str) -> Position:
    """The position that a text holds.

    Raises:
        MalformedPosition: it holds none.
    """
    try:
        if len(text) > _LONGEST:
            raise MalformedPosition("it is too long")
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        numbers = _numbers(raw[DIGEST_BYTES:])
        if next(numbers) != _VERSION:
            raise MalformedPosition("it is of another version")
        hour, width = _small(next(numbers)), next(numbers)
        offsets = {
            _small(next(numbers)): [_small(next(numbers)) for _ in TOPICS] for _ in range(width)
        }
        bits = next(numbers)
        ended = {number for number in range(bits.bit_length()) if bits >> number & 1}
        found = Position(raw[:DIGEST_BYTES], hour, ended, offsets)
        if next(numbers, None) is not None or str(found) != text:
            raise MalformedPosition("it is not as it was given out")
    except (binascii.Error, ValueError, StopIteration, RuntimeError) as error:
        raise MalformedPosition(str(error)) from error
    return found


@lru_cache(_VARINTS_KEPT)
def _varint(number: int) -> bytes:
    """LEB128: seven bits in each byte, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _numbers(raw: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in raw:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0
    if shift:
        raise MalformedPosition("it is cut off")


def _small(number: int) -> int:
    if number.bit_length() > _MOST_BITS:
        raise MalformedPosition("a number is too large")
    return number

"""Records dropped duplicates: a count in the store, a record, and now and then a log line.

An entry of `seen` holds the time when an event first came (8 bytes, big-endian milliseconds). Once
there are duplicates, their number (4 bytes) and the time of the last one (8 bytes) follow. The
first time never changes: a duplicate does not extend the window.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import structlog

from streams.runtime.processor import Context, Record
from streams.serde.duplicate import encode_duplicate

log = structlog.get_logger(__name__)

FIRST_SEEN = struct.Struct(">q")
_COUNTED = struct.Struct(">qIq")
_MOST = 2**32 - 1
_SECONDS_BETWEEN_LINES = 10.0


DuplicateHit = tuple[bytes, int, int, Record, bytes | None]
"""A duplicate: its fingerprint, the event's first time, this delivery's time, its record, and the
entry of `seen` before the batch."""


class Duplicates:
    """Records all duplicates that one process drops, of any partition."""

    def __init__(self) -> None:
        self._dropped = 0
        self._example: tuple[bytes, int, int, Record] | None = None
        self._told_at = -math.inf

    def keep(self, again: Sequence[DuplicateHit], fresh: Mapping[bytes, int], ctx: Context) -> None:
        """Count a batch's duplicates; `fresh` maps events that first came in it to their times.

        Each event costs one put and one record, however many duplicates it has.
        """
        counted: dict[bytes, bytes] = {}
        records: list[Record] = []
        for number, (fingerprint, first, at, record, stored) in _by_event(again):
            count = min(number + _counted(stored, first), _MOST)
            if fresh.get(fingerprint, first) == first:  # else its window ended within the batch
                counted[fingerprint] = _COUNTED.pack(first, count, at)
            headers = dict(record.headers)
            id_, type_ = headers.get("ce_id"), headers.get("ce_type")
            source = _source(headers.get("ce_source"))
            value = encode_duplicate(record.key or b"", count, first, at, id_, source, type_)
            records.append(Record("duplicates", ctx.partition, 0, at, fingerprint, value))
            self._example = fingerprint, count, first, record
        ctx.store("seen").put_many(counted)
        ctx.relay("duplicates", records)
        self._dropped += len(again)

    def tell(self, now: float) -> None:
        """Log the duplicates dropped since the last line, if that was long enough ago.

        `now` is monotonic. Duplicates of an aborted transaction count twice, as in the metric.
        """
        if self._example is None or now - self._told_at < _SECONDS_BETWEEN_LINES:
            return
        fingerprint, count, first, record = self._example
        log.info(
            "duplicates dropped",
            dropped=self._dropped,
            tenant_id=_text(record.key),
            event_id=_text(dict(record.headers).get("ce_id")),
            fingerprint=fingerprint.hex(),
            first_seen=first,
            count=count,
        )
        self._dropped, self._example, self._told_at = 0, None, now


def _by_event(again: Sequence[DuplicateHit]) -> Iterable[tuple[int, DuplicateHit]]:
    """The number of each event's duplicates and the last one, separately for each window."""
    numbers: dict[bytes, int] = {}
    last: dict[bytes, DuplicateHit] = {}
    ended: list[tuple[int, DuplicateHit]] = []
    for each in again:
        fingerprint = each[0]
        number = numbers.get(fingerprint, 0)
        if number and last[fingerprint][1] != each[1]:
            ended.append((number, last[fingerprint]))
            number = 0
        numbers[fingerprint] = number + 1
        last[fingerprint] = each
    return chain(ended, zip(numbers.values(), last.values(), strict=True))


def _counted(stored: bytes | None, first: int) -> int:
    """The number of duplicates so far of the event whose window began at `first`."""
    if stored is None or len(stored) < _COUNTED.size:
        return 0
    began, count, _ = _COUNTED.unpack(stored)
    return int(count) if began == first else 0


def _source(ce_source: bytes | None) -> bytes | None:
    """The source's id in `/tenants/TENANT/sources/SOURCE`, as the ingress writes it."""
    return None if ce_source is None else ce_source.rpartition(b"/")[2]


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode(errors="replace")

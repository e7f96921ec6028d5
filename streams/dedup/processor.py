"""The dedup stage: it forwards the first delivery of every event within the window.

The store `seen` maps a fingerprint to the time when it was first seen; `streams.dedup.duplicates`
says what duplicates add to it. The window is fixed: a duplicate does not extend it. Time is stream
time, which comes from the append times of `events.received`; a wall clock decides nothing here.

An envelope is never decoded: its fingerprint is at bytes 5 to 21, behind the frame.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial

from prometheus_client import Counter

from streams.dedup.duplicates import FIRST_SEEN, DuplicateHit, Duplicates
from streams.errors import DecodeError
from streams.runtime.processor import BatchProcessor, Context, Record
from streams.runtime.stage import Stage, declared_stage
from streams.serde import schemas
from streams.serde.codec import HEADER_SIZE
from streams.topology.model import Topology
from streams.tracing import steps
from streams.tracing.conventions import DUPLICATE

_END = HEADER_SIZE + 16
_LATE = struct.Struct(">qq")
"""The entry in `seen` of a record that is a window or more behind stream time. Such a record was
read again after its group's offsets were lost, or the broker's clock stepped back. The entry begins
with the stream time, by which it expires like any other; the record's own time follows and decides
whether a delivery repeats it. Its duplicates are dropped without being counted in `duplicates`."""
_DROPPED = Counter("tidegate_dedup_duplicates", "Redeliveries dropped")


def stage(topology: Topology) -> Stage:
    """`events.received` to `events`, each event once within `topology.window_ms`."""
    processor = partial(Dedup, topology.window_ms, Duplicates())
    return declared_stage(topology, "dedup", processor, punctuate_seconds=1.0)


class Dedup(BatchProcessor):
    """Deduplicates one partition; its whole state is in its store."""

    def __init__(self, window_ms: int, duplicates: Duplicates, partition: int) -> None:
        self._window = window_ms
        self._duplicates = duplicates
        self._frames = {
            struct.pack(">bI", 0, schema.id)
            for schema in schemas.by_id().values()
            if schema.name == "envelope"
        }

    def punctuate(self, now: int, ctx: Context) -> None:
        """Write the log line about duplicates when it is due; no event waits for time."""
        self._duplicates.tell(ctx.monotonic)

    def rests(self, ctx: Context) -> bool:
        """Whether no event waits for time: always."""
        return True

    def process_batch(self, records: Sequence[Record], ctx: Context) -> None:
        """Forward the events not seen within the window, with one store lookup for all records.

        Raises:
            DecodeError: a value is not a framed envelope.
        """
        store, window, now = ctx.store("seen"), self._window, ctx.stream_time
        fingerprints = self._fingerprints([record.value for record in records])
        first: list[Record] = []
        fresh: dict[bytes, int] = {}
        late: dict[bytes, bytes] = {}
        again: list[DuplicateHit] = []
        for record, fingerprint, stored in zip(
            records, fingerprints, store.get_many(fingerprints), strict=True
        ):
            now = max(now, record.timestamp)
            seen = fresh.get(fingerprint)
            if seen is None and stored is not None:
                seen = FIRST_SEEN.unpack_from(stored)[0]
            if seen is not None and now - seen < window:
                entry = late.get(fingerprint) if fingerprint in fresh else stored
                if entry is None or len(entry) != _LATE.size:
                    again.append((fingerprint, seen, now, record, stored))
                    continue
                if record.timestamp - _LATE.unpack(entry)[1] < window:
                    _DROPPED.inc()
                    continue
            first.append(record)
            fresh[fingerprint] = now
            if now - record.timestamp >= window:
                late[fingerprint] = _LATE.pack(now, record.timestamp)
            elif late:
                late.pop(fingerprint, None)
        store.put_many(dict(zip(fresh, map(FIRST_SEEN.pack, fresh.values()), strict=True)) | late)
        ctx.relay("events", first)
        if again:
            _DROPPED.inc(len(again))
            self._duplicates.keep(again, fresh, ctx)
            steps.mark((hit[3] for hit in again), DUPLICATE, True)

    def _fingerprints(self, values: Sequence[bytes | None]) -> list[bytes]:
        framed = [value for value in values if value is not None]
        if len(framed) < len(values) or min(map(len, framed)) <= _END:
            raise DecodeError("envelope: too short to hold a fingerprint")
        foreign = {value[:HEADER_SIZE] for value in framed} - self._frames
        if foreign:
            raise DecodeError(f"envelope: {foreign.pop().hex()} frames no envelope")
        return [value[HEADER_SIZE:_END] for value in framed]

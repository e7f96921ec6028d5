"""What is counted in one window of one tenant, source and type, and how it is written."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import orjson

from streams.analytics.sketches import Distinct, Histogram

_LENGTH = struct.Struct(">I")


@dataclass(slots=True)
class Figures:
    """The sums of one window; those of two windows can be merged.

    `outcomes` maps the end of a job, or the status of an effect, to how many there are. `took` has
    the milliseconds from an event to the end of its job.
    """

    events: int = 0
    redeliveries: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    took: Histogram = field(default_factory=Histogram)
    subjects: Distinct = field(default_factory=Distinct)

    def outcome(self, name: str, times: int = 1) -> None:
        """Count one end more, or one less with `times=-1`."""
        total = self.outcomes.get(name, 0) + times
        if total:
            self.outcomes[name] = total
        else:
            self.outcomes.pop(name, None)

    def merge(self, other: Figures) -> None:
        """Add the figures of another window or partition."""
        self.events += other.events
        self.redeliveries += other.redeliveries
        for name, number in other.outcomes.items():
            self.outcome(name, number)
        self.took.merge(other.took.buckets)
        self.subjects.merge(other.subjects)

    def encode(self) -> bytes:
        """The bytes of a row: the length of its JSON, the JSON, the registers of its subjects."""
        took = {str(bucket): number for bucket, number in sorted(self.took.buckets.items())}
        outcomes = dict(sorted(self.outcomes.items()))
        counts = orjson.dumps([self.events, self.redeliveries, outcomes, took])
        return _LENGTH.pack(len(counts)) + counts + self.subjects.encode()

    @classmethod
    def decode(cls, raw: bytes) -> Figures:
        """What `encode` wrote."""
        end = _LENGTH.size + _LENGTH.unpack_from(raw)[0]
        events, redeliveries, outcomes, took = orjson.loads(raw[_LENGTH.size : end])
        buckets = {int(bucket): number for bucket, number in took.items()}
        subjects = Distinct.decode(raw[end:])
        return cls(events, redeliveries, outcomes, Histogram(buckets), subjects)

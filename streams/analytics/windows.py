"""Which windows there are, and under which keys their rows are kept.

Windows tumble: each time belongs to one minute and to one hour of UTC. The rows of some days make a
segment, which is dropped whole; a segment's number is that of its table. Beside its rows a segment
has marks: what was last known of a job, an effect or an event that came again.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import orjson

from streams.serde.keys import SEPARATOR

StepName = Literal["minute", "hour"]
KEPT_MS = 7 * 86_400_000
"""How far back figures are served."""
WAITING = 0
"""The table of the jobs that wait for a worker; segments have higher numbers."""

_TIME = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class Step:
    """A width of windows: `ms` milliseconds; `prefix` begins the keys of its rows."""

    prefix: bytes
    ms: int

    def start(self, at: int) -> int:
        """The start of the window in which `at` lies, in milliseconds."""
        return at - at % self.ms


STEPS: dict[StepName, Step] = {"minute": Step(b"m", 60_000), "hour": Step(b"h", 3_600_000)}
_MARK = b"k"


@dataclass(frozen=True, slots=True)
class RowKey:
    """Whose row it is: `dimensions` are source and type, or the tool of an effect."""

    tenant_id: str
    start: int
    dimensions: tuple[str, ...]


def row_key(step: Step, key: RowKey) -> bytes:
    """A tenant's rows lie together, in the order of time."""
    return span_key(step, key.tenant_id, key.start) + orjson.dumps(key.dimensions)


def span_key(step: Step, tenant_id: str, start: int) -> bytes:
    """The first key of a tenant's rows from a time on."""
    return tenant_prefix(step, tenant_id) + _TIME.pack(start)


def tenant_prefix(step: Step, tenant_id: str) -> bytes:
    """What all keys of a tenant's rows begin with."""
    return step.prefix + tenant_id.encode() + SEPARATOR


def parse_row_key(key: bytes) -> RowKey:
    """The parts of a row's key."""
    tenant, _, rest = key[1:].partition(SEPARATOR)
    (start,) = _TIME.unpack_from(rest)
    return RowKey(tenant.decode(), start, tuple(orjson.loads(rest[_TIME.size :])))


def mark_key(parts: Sequence[bytes]) -> bytes:
    """The key of a mark; the last part may contain separators."""
    return _MARK + SEPARATOR.join(parts)


def segment_ms(window_ms: int) -> int:
    """How much time a segment has: as long as rows are kept and as duplicates are recognised."""
    return max(KEPT_MS, window_ms)

"""Finds the live jobs that an event may cancel: those of the types that some route `cancels`.

A bucket has the jobs of one tenant and type whose events have the same value in one place. Its name
is a hash, because a value may be of any length. Jobs are numbered in the order in which they came
here, so that what came after an event is known.

Keys in the store `parts`: `I` bucket job_id and `J` job_id hold the job's number, the second also
its buckets, so that its entries are found again under other routes; `N` holds the last number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from itertools import islice

import orjson

from streams.runtime.processor import Context
from streams.serde.keys import after
from streams.serde.records import Job
from streams.state.store import KeyValueStore
from streams.topology.by_value import value_of
from streams.topology.model import Topology

_IN_BUCKET, _JOB, _NUMBER = b"I", b"J", b"N"
KEYS = {
    _IN_BUCKET: "live jobs that events may cancel",
    _JOB: "their numbers and buckets",
    _NUMBER: "the last number",
}
_SIZE = 16
_COUNT = struct.Struct(">Q")

Entry = tuple[int, tuple[bytes, ...]]
"""The number of a job, and its buckets."""


def bucket(tenant_id: str, type_: str, by: str, value: str) -> bytes:
    """The name of a bucket."""
    return blake2b(orjson.dumps((tenant_id, type_, by, value)), digest_size=_SIZE).digest()


class CancellableJobs:
    """The buckets of one partition's jobs; a job without a value is in none."""

    def __init__(self, ctx: Context, topology: Topology) -> None:
        self._ctx = ctx
        self._store: KeyValueStore = ctx.store("parts")
        self._bys = _bys(topology)
        value = self._store.get(_NUMBER)
        self.last = 0 if value is None else int(_COUNT.unpack(value)[0])
        """The last number that was given."""
        self.is_kept = bool(self._bys) or self.last > 0
        """Whether the store may have entries; without them nothing is ever looked up."""

    def has_type(self, type_: str) -> bool:
        """Whether a route cancels jobs of a type."""
        return type_ in self._bys

    def put(self, job: Job) -> bool:
        """Give a live job the entries that it should have; whether anything changed.

        It keeps the number that it has, or gets the next.
        """
        known, wanted = self._entry(job.job_id), self._buckets(job)
        before = known[1] if known else ()
        if before == wanted:
            return False
        packed = _COUNT.pack(known[0] if known else self.next_number())
        key = job.job_id.encode()
        self._store.put_many(
            {
                **{_IN_BUCKET + name + key: None for name in before},
                **{_IN_BUCKET + name + key: packed for name in wanted},
                _JOB + key: packed + b"".join(wanted) if wanted else None,
            }
        )
        return True

    def remove(self, job_id: str) -> None:
        """Delete the entries of a job."""
        known = self._entry(job_id)
        if known is not None:
            key = job_id.encode()
            entries = [_IN_BUCKET + name + key for name in known[1]]
            self._store.put_many(dict.fromkeys([*entries, _JOB + key]))

    def entry(self, job: Job, bys: Iterable[str]) -> Entry:
        """The number of a live job, 0 before it has one, and its buckets, those of `bys` too."""
        known, wanted = self._entry(job.job_id), self._buckets(job, bys)
        return (0, wanted) if known is None else (known[0], tuple({*known[1], *wanted}))

    def jobs(self, name: bytes, behind: str, to: str, limit: int) -> list[tuple[str, int]]:
        """Ids and numbers of jobs in a bucket, in the order of ids.

        They are after the id `behind`, and up to the id `to` unless that is empty.
        """
        prefix = _IN_BUCKET + name
        start = prefix + behind.encode() + b"\0" if behind else prefix
        end = prefix + to.encode() + b"\0" if to else after(prefix)
        found = islice(self._store.range(start, end), limit)
        return [(key[len(prefix) :].decode(), _COUNT.unpack(value)[0]) for key, value in found]

    def next_number(self) -> int:
        """The next number; it is given once."""
        self._ctx.on_undo(setattr, self, "last", self.last)
        self.last += 1
        self._store.put(_NUMBER, _COUNT.pack(self.last))
        return self.last

    def _entry(self, job_id: str) -> Entry | None:
        value = self._store.get(_JOB + job_id.encode())
        if value is None:
            return None
        places = range(_COUNT.size, len(value), _SIZE)
        return _COUNT.unpack_from(value)[0], tuple(value[at : at + _SIZE] for at in places)

    def _buckets(self, job: Job, bys: Iterable[str] = ()) -> tuple[bytes, ...]:
        if job.event is None:
            return ()
        wanted = dict.fromkeys([*self._bys.get(job.type, ()), *bys])
        values = ((by, value_of(by, job.event)) for by in wanted)
        return tuple(bucket(job.tenant_id, job.type, by, value) for by, value in values if value)


def _bys(topology: Topology) -> Mapping[str, tuple[str, ...]]:
    """The types that routes cancel, and where the values are by which they do, each once."""
    found: dict[str, dict[str, None]] = {}
    for route in topology.routes:
        if route.cancels is not None:
            found.setdefault(route.cancels.job, {})[route.cancels.by] = None
    return {type_: tuple(sorted(bys)) for type_, bys in found.items()}

"""Stores which jobs are dead because no worker handled their type, to bring them back later.

The store `jobs` keeps each such job under `B`, followed by its type, the pool that an operator
asked for (or nothing), and its job_id.
"""

from __future__ import annotations

from itertools import islice

from streams.serde.keys import SEPARATOR, after, join, split
from streams.serde.records import Job
from streams.state.store import KeyValueStore

_UNHANDLED = b"B"

Waiting = tuple[str, str | None]
"""A type, and the pool that an operator asked for."""


def key(job: Job) -> bytes:
    """The store key of such a job."""
    return _UNHANDLED + join(job.type, job.asked_pool or "", job.job_id)


def all_waiting(store: KeyValueStore) -> set[Waiting]:
    """The types and pools that have such jobs; costs one lookup for each pair."""
    found: set[Waiting] = set()
    start = _UNHANDLED
    while entry := next(store.range(start, after(_UNHANDLED)), None):
        type_, asked, _ = split(entry[0][1:])
        found.add((type_, asked or None))
        start = after(_prefix((type_, asked or None)))
    return found


def some(store: KeyValueStore, waiting: Waiting, limit: int) -> list[tuple[bytes, str]]:
    """Keys and ids of at most `limit` such jobs, in the order of their ids."""
    prefix = _prefix(waiting)
    found = islice(store.range(prefix, after(prefix)), limit)
    return [(key, key[len(prefix) :].decode()) for key, _ in found]


def _prefix(waiting: Waiting) -> bytes:
    type_, asked = waiting
    return _UNHANDLED + join(type_, asked or "") + SEPARATOR

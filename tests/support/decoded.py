"""Records of topics, each decoded once however often a test reads a topic from its beginning.

A test asks for all leases or jobs so far after each step: without this the time would grow with
the square of the steps.
"""

from __future__ import annotations

from functools import lru_cache

from streams.serde.codec import JOB, REPLY
from streams.serde.lease_mac import open_lease
from streams.serde.records import Job, Lease, Reply

_REMEMBERED = 1 << 16
_remember = lru_cache(_REMEMBERED)


@_remember
def lease(value: bytes, cluster_key: bytes) -> Lease:
    return open_lease(value, cluster_key)


@_remember
def job(value: bytes) -> Job:
    return JOB.decode(value)


@_remember
def reply(value: bytes) -> Reply:
    return REPLY.decode(value)

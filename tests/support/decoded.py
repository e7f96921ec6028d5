"""Records of topics, each decoded once however often a test reads a topic from its beginning.

A test asks for all leases or jobs so far after each step: without this the time would grow with
the square of the steps.
"""

from __future__ import annotations

from functools import lru_cache

from streams.serde.codec import JOB
from streams.serde.link import frames
from streams.serde.link.messages import FromOwner
from streams.serde.records import Job

_REMEMBERED = 1 << 16
_remember = lru_cache(_REMEMBERED)


@_remember
def job(value: bytes) -> Job:
    return JOB.decode(value)


@_remember
def said(value: bytes) -> FromOwner:
    """What an owner said to a worker over the link."""
    (message,) = frames.from_owner(frames.joined([value]))
    return message

"""How large the messages are that a topic must accept, and why.

The broker measures whole batches, so every topic accepts the largest batch of a producer. No single
record is larger than that: the producer itself would refuse it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fnmatch import fnmatchcase

from streams.serde.sizes import (
    CHUNK_BYTES,
    MAX_JOB_TYPES_BYTES,
    MAX_LETTER_KEY_BYTES,
    MAX_LETTER_VALUE_BYTES,
    MAX_VALUE_BYTES,
    NONCE_BYTES,
    PRODUCER_BATCH_BYTES,
)

LEAST_KIB = math.ceil(PRODUCER_BATCH_BYTES / 1024)


def too_small(topic: str, message_bytes: int) -> str | None:
    """Why a topic must accept larger messages than this many bytes; None if it need not."""
    if message_bytes >= PRODUCER_BATCH_BYTES:
        return None
    why = (
        f"takes messages of {message_bytes:,} bytes at most, less than the "
        f"{PRODUCER_BATCH_BYTES:,} that a producer sends in one batch: the broker would refuse "
        "records that are small themselves"
    )
    for glob, size, what in largest():
        if fnmatchcase(topic, glob) and message_bytes < size:
            why += f", and {what} ({size:,} bytes)"
    return why


def largest() -> Iterator[tuple[str, int, str]]:
    """Topics (a glob), and the bytes and name of the largest record sent to them."""

    yield "payloads", NONCE_BYTES + CHUNK_BYTES, "a sealed chunk of a body"
    yield "jobs.commands", MAX_VALUE_BYTES, "a step's value"
    yield "jobs.progress", MAX_VALUE_BYTES, "a job's progress"
    yield "jobs.types", MAX_JOB_TYPES_BYTES, "the job types of an application"
    yield "jobs", 2 * MAX_VALUE_BYTES, "a job with its input and result"
    yield "dispatcher.checkpoints.changelog", MAX_VALUE_BYTES, "a step's value"
    yield "ledger", MAX_VALUE_BYTES, "an effect's result"
    yield "schedules", 2 * MAX_VALUE_BYTES, "a schedule with its input"
    yield "approvals", 2 * MAX_VALUE_BYTES, "an approval with its edit"
    yield (
        "dlq",
        MAX_LETTER_KEY_BYTES + MAX_LETTER_VALUE_BYTES,
        "a dead letter with its record's key and value",
    )

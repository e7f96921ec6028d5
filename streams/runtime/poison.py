"""The dead letter of a record that can never be processed, or whose output nobody takes."""

from __future__ import annotations

from streams.runtime.processor import Header, Record
from streams.serde.codec import DEAD_LETTER
from streams.serde.records import DeadLetter

TOPIC = "dlq"
VALUE_CAP = 900 * 1024
"""Bytes of a record kept in its dead letter: the letter must fit a message of 1 MB."""

Output = tuple[str, bytes | None, bytes | None, int, tuple[Header, ...], int | None]
"""Topic, key, value, partition, headers, timestamp (milliseconds; None: when it is sent)."""


def dead_letter(
    stage: str, record: Record, partition: int, at: int, reason: str, detail: str
) -> Output:
    """The output that takes a poison record's place; `at` in milliseconds.

    The tenant is left empty: what cannot be read cannot say whose it is.
    """
    value = record.value
    if value is not None and len(value) > VALUE_CAP:
        detail = f"{detail} (value cut from {len(value)} to {VALUE_CAP} bytes)".strip()
        value = value[:VALUE_CAP]
    letter = DeadLetter(
        id=f"{stage}:{record.topic}:{record.partition}:{record.offset}",
        kind="record",
        tenant_id="",
        reason=reason,
        detail=detail,
        stage=stage,
        at=at,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        key=record.key,
        value=value,
        traceparent=_traceparent(record),
    )
    return TOPIC, letter.id.encode(), DEAD_LETTER.encode(letter), partition, (), None


def _traceparent(record: Record) -> str | None:
    for name, value in record.headers:
        if name == "traceparent":
            return value.decode("ascii", "replace")
    return None

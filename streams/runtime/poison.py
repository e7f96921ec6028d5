"""The dead letter of a record that can never be processed, or whose output nobody takes."""

from __future__ import annotations

from streams.runtime.processor import Record
from streams.serde.codec import DEAD_LETTER
from streams.serde.records import DeadLetter

TOPIC = "dlq"
VALUE_CAP = 900 * 1024
KEY_CAP = 64 * 1024
_DETAIL_CAP = 2 * 1024
_TRACE_CAP = 256
"""What a dead letter keeps of its record, in bytes: all of it fits a message of 1 MB."""


def dead_letter(
    stage: str, record: Record, at: int, reason: str, detail: str
) -> tuple[bytes, bytes]:
    """Key and value of what takes a poison record's place; `at` in milliseconds.

    The tenant is left empty: what cannot be read cannot say whose it is.
    """
    key, cut_key = _cut(record.key, KEY_CAP, "key")
    value, cut_value = _cut(record.value, VALUE_CAP, "value")
    letter = DeadLetter(
        id=f"{stage}:{record.topic}:{record.partition}:{record.offset}",
        kind="record",
        tenant_id="",
        reason=reason,
        detail=detail[:_DETAIL_CAP] + cut_key + cut_value,
        stage=stage,
        at=at,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        key=key,
        value=value,
        traceparent=_traceparent(record),
    )
    return letter.id.encode(), DEAD_LETTER.encode(letter)


def _cut(data: bytes | None, cap: int, what: str) -> tuple[bytes | None, str]:
    if data is None or len(data) <= cap:
        return data, ""
    return data[:cap], f" ({what} cut from {len(data)} to {cap} bytes)"


def _traceparent(record: Record) -> str | None:
    for name, value in record.headers:
        if name == "traceparent" and value:
            return value[:_TRACE_CAP].decode("ascii", "replace")
    return None

"""The dead letter of a record that can never be processed, or whose output is refused."""

from __future__ import annotations

from streams.runtime.processor import Record
from streams.serde.codec import DEAD_LETTER
from streams.serde.headers import traceparent
from streams.serde.records import DeadLetter
from streams.serde.sizes import KEY_CAP, VALUE_CAP

TOPIC = "dlq"
HEADERS_CAP = 8 * 1024
_DETAIL_CAP = 2 * 1024
"""How many bytes of its record a dead letter keeps: all of it fits a message of 1 MB."""


def dead_letter(
    stage: str, record: Record, at: int, reason: str, detail: str, id_: str = ""
) -> tuple[bytes, bytes]:
    """Key and value of the dead letter that replaces a poison record; `at` in milliseconds.

    The tenant is left empty: an unreadable record cannot say whose it is. Unless it is `cut`, the
    record can be sent again as it was. `id_` is the id for a record whose offset is not known.
    """
    key, cut_key = _cut(record.key, KEY_CAP, "key")
    value, cut_value = _cut(record.value, VALUE_CAP, "value")
    headers, cut_headers = _headers(record)
    cut = cut_key + cut_value + cut_headers
    letter = DeadLetter(
        id=id_ or f"{stage}:{record.topic}:{record.partition}:{record.offset}",
        kind="record",
        tenant_id="",
        reason=reason,
        detail=_whole_text(detail) + cut,
        stage=stage,
        at=at,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        key=key,
        value=value,
        traceparent=traceparent(record.headers),
        timestamp=record.timestamp,
        headers=headers,
        cut=bool(cut),
    )
    return letter.id.encode(), DEAD_LETTER.encode(letter)


def _cut(data: bytes | None, cap: int, what: str) -> tuple[bytes | None, str]:
    if data is None or len(data) <= cap:
        return data, ""
    return data[:cap], f" ({what} cut from {len(data)} to {cap} bytes)"


def _headers(record: Record) -> tuple[dict[str, bytes], str]:
    """Headers by name, as many as fit; our readers treat an empty value like a missing one."""
    kept: dict[str, bytes] = {}
    left = HEADERS_CAP
    for name, value in record.headers:
        left -= len(name.encode()) + len(value or b"")
        if left >= 0 and name not in kept:
            kept[name] = value or b""
    lost = len(record.headers) - len(kept)
    return kept, f" ({lost} headers cut)" if lost else ""


def _whole_text(detail: str) -> str:
    """As much text as is kept, without what UTF-8 cannot encode: errors may quote any input."""
    return detail.encode(errors="replace")[:_DETAIL_CAP].decode(errors="ignore")

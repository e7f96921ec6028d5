"""Makes dead letters: the records and jobs that failed for good, as they are written to `dlq`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streams.serde.codec import DEAD_LETTER, JOB
from streams.serde.headers import traceparent
from streams.serde.job_states import JOB_STATES
from streams.serde.keys import holds_secret
from streams.serde.records import DeadLetter, Job
from streams.serde.sizes import MAX_LETTER_KEY_BYTES, MAX_LETTER_VALUE_BYTES

TOPIC = "dlq"
LETTER_HEADER = "tidegate-letter"
"""The last header of a record that brings a letter, its value, back to the letter's stage."""
REPLAY_HEADER = "tidegate-replay"
"""The header of a letter that has the id of the replay that marked it."""
JOB_REASONS = {each.name: each.dead_letter for each in JOB_STATES if each.dead_letter}
"""The reasons of jobs whose end had no other cause."""
_HEADERS_BYTES = 8 * 1024
_DETAIL_BYTES = 2 * 1024


def of_record(
    stage: str,
    topic: str,
    partition: int,
    offset: int | None,
    timestamp: int | None,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes]] = (),
    *,
    reason: str,
    detail: str,
    at: int,
    id_: str = "",
    tenant_id: str = "",
) -> DeadLetter:
    """The dead letter that a stage leaves in place of a record; `at` is in milliseconds.

    Unless the letter is `cut`, the record can be sent again as it was. It is cut to fit a message
    of 1 MB, and where it would copy a tenant's secrets, because a copy outlives their destruction.
    `id_` is the id for a record whose offset is not known. The tenant stays empty for a record
    that cannot be trusted to say whose it is.
    """
    withheld = topic == "tenants" and value is not None and holds_secret(key or b"")
    if withheld:
        value = None
    key, key_mark = _cut(key, MAX_LETTER_KEY_BYTES, "key")
    value, value_mark = _cut(value, MAX_LETTER_VALUE_BYTES, "value")
    kept, headers_mark = _cut_headers(headers)
    marks = key_mark + value_mark + headers_mark + (" (value withheld)" if withheld else "")
    return DeadLetter(
        id=id_ or f"{stage}:{topic}:{partition}:{offset}",
        kind="record",
        tenant_id=tenant_id,
        reason=reason,
        detail=cut_text(detail) + marks,
        stage=stage,
        at=at,
        topic=topic,
        partition=partition,
        offset=offset,
        key=key,
        value=value,
        traceparent=traceparent(headers),
        timestamp=timestamp,
        headers=kept,
        cut=bool(marks),
    )


def shortened(letter: DeadLetter) -> DeadLetter:
    """A record's letter without the record, for a broker that does not take them together.

    The record itself is where the letter says, for as long as its topic keeps it.
    """
    detail = f"{letter.detail} (key, value and headers left out: the broker refuses more)"
    return replace(letter, detail=detail, key=None, value=None, headers={}, cut=True)


def of_job(job: Job, at: int) -> DeadLetter:
    """The dead letter of a `failed` or `dead` job; its id is the job's, `at` is in milliseconds."""
    return DeadLetter(
        id=job.job_id,
        kind="job",
        tenant_id=job.tenant_id,
        reason=job.end_reason or JOB_REASONS[job.status],
        detail=job.last_error or "",
        stage="dispatcher",
        at=at,
        value=JOB.encode(job),
        job_id=job.job_id,
        type=job.type,
        status=job.status,
        attempts=job.attempts,
        traceparent=job.traceparent,
    )


def of_replayed(job: Job, new_id: str, at: int, note: str, by: str | None = None) -> DeadLetter:
    """A job's dead letter, which says that the job was replayed as `new_id` at `at`."""
    letter = of_job(job, job.updated_at)
    return replace(letter, replayed_at=at, replayed_as=new_id, replayed_by=by, note=note)


def is_replayed(letter: DeadLetter) -> bool:
    """Whether a letter waits for nobody: its job or record was sent in again and is not dead."""
    return letter.replayed_at is not None and letter.replay_outcome != "failed"


def is_closed(letter: DeadLetter) -> bool:
    """Whether nothing is left to do about a letter: it was discarded, or done by hand."""
    return letter.discarded_at is not None or letter.done_at is not None


def is_manual(letter: DeadLetter) -> bool:
    """Whether a person does by hand what a letter's job or record was to do."""
    return letter.manual_at is not None and not is_closed(letter) and not is_replayed(letter)


def returning(letter: DeadLetter) -> tuple[bytes, bytes, tuple[tuple[str, bytes], ...]]:
    """Key, value and headers of the record that brings a letter back to its stage."""
    trace = (("traceparent", letter.traceparent.encode()),) if letter.traceparent else ()
    return *encoded(letter), (*trace, (LETTER_HEADER, letter.id.encode()))


def encoded(letter: DeadLetter) -> tuple[bytes, bytes]:
    """Key and value of a letter's record."""
    return letter.id.encode(), DEAD_LETTER.encode(letter)


def _cut(data: bytes | None, most: int, what: str) -> tuple[bytes | None, str]:
    if data is None or len(data) <= most:
        return data, ""
    return data[:most], f" ({what} cut from {len(data)} to {most} bytes)"


def _cut_headers(headers: Sequence[tuple[str, bytes | None]]) -> tuple[dict[str, bytes], str]:
    """Headers by name, as many as fit; our readers treat an empty value like a missing one."""
    kept: dict[str, bytes] = {}
    left = _HEADERS_BYTES
    for name, value in headers:
        left -= len(name.encode()) + len(value or b"")
        if left >= 0 and name not in kept:
            kept[name] = value or b""
    lost = len(headers) - len(kept)
    return kept, f" ({lost} headers cut)" if lost else ""


def cut_text(detail: str) -> str:
    """As much text as is kept, without what UTF-8 cannot encode: errors may quote any input."""
    return detail.encode(errors="replace")[:_DETAIL_BYTES].decode(errors="ignore")

"""Dead letters as the API shows them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from streams.operator.http.views import Json, rfc3339, trace_id
from streams.serde.records import DeadLetter


@dataclass(frozen=True, slots=True)
class Replayed:
    """A job that was made of another one; `created_at` in milliseconds."""

    job_id: str
    status: str
    created_at: int


def dead_letter_json(
    letter: DeadLetter, replays: Sequence[Replayed] = (), status: str | None = None
) -> Json:
    """A dead letter as lists show it: where it comes from and why, without its bytes.

    `replays` are the jobs made of it, newest first; `status` is that of the job it names.
    """
    return {
        "id": letter.id,
        "kind": letter.kind,
        "tenant_id": letter.tenant_id,
        "reason": letter.reason,
        "detail": letter.detail,
        "stage": letter.stage,
        "at": rfc3339(letter.at),
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "job_id": letter.job_id,
        "type": letter.type,
        "status": letter.status,
        "attempts": letter.attempts,
        "trace_id": trace_id(letter.traceparent),
        "replayed_at": rfc3339(letter.replayed_at),
        "replayed_as": letter.replayed_as,
        "replayed_status": status,
        "replayed_by": letter.replayed_by,
        "note": letter.note,
        "replays": [replay_json(each) for each in replays],
    }


def replay_json(made: Replayed) -> Json:
    """A job that was made of another one, and what became of it."""
    return asdict(made) | {"created_at": rfc3339(made.created_at)}


def dead_record_json(letter: DeadLetter) -> Json:
    """A dead record: its time, and its bytes in base64 (RFC 4648 section 4)."""
    return {
        "timestamp": rfc3339(letter.timestamp),
        "cut": letter.cut,
        "headers_base64": {name: _base64(value) for name, value in letter.headers.items()},
        "key_base64": _base64(letter.key),
        "value_base64": _base64(letter.value),
    }


def _base64(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()

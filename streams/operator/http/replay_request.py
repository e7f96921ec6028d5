"""Bodies of the calls that send dead letters in again."""

from __future__ import annotations

import hashlib
from typing import Annotated, Self

import orjson
from pydantic import Field, model_validator

from streams.operator.http.fields import Body, Moment, Name, milliseconds, noted
from streams.operator.http.refusal import Refusal, invalid
from streams.operator.resources.record_letters import Wanted

MAX_EFFECTS = 1_000
MAX_LIMIT = 1_000

Note = Annotated[str, noted("must say why it may run again")]
Action = Annotated[str, Field(min_length=1, max_length=1_024)]


class ReplayRequest(Body):
    """Body of `POST /v1/dlq/{id}/replay`: why it is safe to run again is always written down."""

    incident_note: Note
    fresh_scope: bool = False
    again: bool = False
    repeat_effects: Annotated[list[Action], Field(max_length=MAX_EFFECTS)] = Field(
        default_factory=list
    )
    type: Name | None = None

    @model_validator(mode="after")
    def _repeats_in_a_fresh_scope(self) -> Self:
        if self.repeat_effects and not self.fresh_scope:
            raise ValueError("repeat_effects needs fresh_scope: else what is done is not repeated")
        return self

    def digest(self) -> bytes:
        """SHA-256 of the request."""
        return hashlib.sha256(orjson.dumps(self.model_dump(), option=orjson.OPT_SORT_KEYS)).digest()

    def require_record(self) -> None:
        """See that nothing is asked for that only a job has.

        Raises:
            Refusal: 422.
        """
        for_jobs = {
            "fresh_scope": self.fresh_scope, "repeat_effects": self.repeat_effects,
            "type": self.type,
        }  # fmt: skip
        if faults := [(name, "is for jobs, and this is a record") for name in for_jobs if
                      for_jobs[name]]:  # fmt: skip
            raise invalid(faults)


class BulkReplayRequest(Body):
    """Body of `POST /v1/dlq:replay`: records that were not sent in again; times are RFC 3339."""

    incident_note: Note
    stage: str | None = None
    reason: str | None = None
    topic: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = 500
    cursor: str | None = None
    dry_run: bool = False

    def wanted(self) -> Wanted:
        """Which letters are meant."""
        since, until = (None if t is None else milliseconds(t) for t in (self.since, self.until))
        return Wanted(self.stage, self.reason, self.topic, since, until)


def key_reused(job_id: str, what: str) -> Refusal:
    """409 for a key whose replay was asked for with another body."""
    return Refusal(
        409,
        "key-reused",
        f"this key belongs to replay {job_id}, made with another {what}: "
        "send the same body, or a new key",
        job_id=job_id,
    )

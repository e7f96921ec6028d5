"""Bodies of the calls that send dead letters in again, discard them, or leave them to a person."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from streams.api.fields import Body, Moment, Name, Writable, noted, stored_json
from streams.api.jobs.job_request import MAX_INPUT_BYTES
from streams.api.refusal import all_invalid
from streams.http.moments import milliseconds

MAX_EFFECTS = 1_000
MAX_LIMIT = 1_000

Note = Annotated[str, noted("must say why it may run again")]
Action = Annotated[str, Field(min_length=1, max_length=1_024)]


class ReplayRequest(Body):
    """Body of `POST /v1/dlq/{id}/replay`; the note says why it is safe to run again.

    `input` takes the place of the job's own, and the new job begins without the old one's steps.
    """

    incident_note: Note
    fresh_scope: bool = False
    again: bool = False
    repeat_effects: Annotated[list[Action], Field(max_length=MAX_EFFECTS)] = Field(
        default_factory=list
    )
    type: Name | None = None
    input: Writable | None = None

    @model_validator(mode="after")
    def _repeats_in_a_fresh_scope(self) -> Self:
        if self.repeat_effects and not self.fresh_scope:
            raise ValueError(
                "repeat_effects needs fresh_scope: else no finished effect is repeated"
            )
        return self

    def input_text(self) -> str | None:
        """Return the edited input as the JSON text that is kept.

        Raises:
            Refusal: 413, it is too large.
        """
        return None if self.input is None else stored_json(self.input, "input", MAX_INPUT_BYTES)

    def require_record(self) -> None:
        """Refuse with 422 if the request has a field that is only for jobs."""
        for_jobs = {
            "fresh_scope": self.fresh_scope,
            "repeat_effects": self.repeat_effects,
            "type": self.type,
            "input": self.input is not None,
        }
        if faults := [
            (name, "is for jobs, and this is a record") for name in for_jobs if for_jobs[name]
        ]:
            raise all_invalid(faults)


class EditRequest(Body):
    """Body of `POST /v1/dlq/{id}/preview`; `type` is that of the replay, if not the job's own."""

    input: Writable
    type: Name | None = None

    @field_validator("input")
    @classmethod
    def _is_one(cls, value: Any) -> Any:
        if value is None:
            raise ValueError("must not be null: a replay without an input keeps the job's own")
        return value


class BulkReplayRequest(Body):
    """Body of `POST /v1/dlq:replay`: which letters, neither replayed nor discarded yet.

    Times are RFC 3339. `topic` selects records alone, `type` jobs alone.
    """

    incident_note: Note
    kind: Literal["job", "record"] | None = None
    tenant_id: str | None = None
    type: str | None = None
    stage: str | None = None
    reason: str | None = None
    topic: str | None = None
    error: str | None = None
    cause: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = 500
    cursor: str | None = None
    dry_run: bool = False

    def filters(self) -> dict[str, str | int | None]:
        """Return which letters are meant, with times in milliseconds."""
        since, until = (None if t is None else milliseconds(t) for t in (self.since, self.until))
        given = self.model_dump(exclude={"incident_note", "limit", "cursor", "dry_run"})
        return given | {"since": since, "until": until}


class DiscardRequest(Body):
    """Body of `POST /v1/dlq/{id}/discard`."""

    note: Annotated[str, noted("must say why nothing is left to do")]


class ManualRequest(Body):
    """Body of `POST /v1/dlq/{id}/manual`; `assignee` is the name of who is to do it."""

    note: Annotated[str, noted("must say what is to be done by hand")]
    assignee: Name | None = None


class DoneRequest(Body):
    """Body of `POST /v1/dlq/{id}/done`."""

    note: Annotated[str, noted("must say what was done by hand")]

"""Bodies that submit a job or cancel one, and the submission that the former becomes."""

from __future__ import annotations

from math import ceil
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from streams.api.fields import Body, Moment, Name, WebLink, Writable, bounded, stored_json
from streams.api.refusal import invalid
from streams.errors import LONGEST_WAIT_SECONDS
from streams.http.moments import milliseconds
from streams.serde.records import Submit
from streams.topology.model import Topology

MAX_INPUT_BYTES = 256 * 1024
"""The limit of the input as stored JSON: job, lease and result must each fit one message."""

Delay = Annotated[float, Field(ge=0, le=LONGEST_WAIT_SECONDS)]
Timeout = Annotated[float, Field(gt=0, le=7 * 86_400)]


class JobRequest(Body):
    """A direct submission; `input` is any JSON, times are in seconds or RFC 3339."""

    type: Name
    input: Writable = Field(default_factory=dict)
    priority: str | None = None
    delay_seconds: Delay | None = None
    run_at: Moment | None = None
    dedup_key: Name | None = None
    callback_url: WebLink | None = None
    workflow_id: Name | None = None
    timeout_seconds: Timeout | None = None

    @model_validator(mode="after")
    def _one_time(self) -> Self:
        if self.delay_seconds is not None and self.run_at is not None:
            raise ValueError("give delay_seconds or run_at, not both")
        return self

    def submission(self, topology: Topology, traceparent: str, now: int, by: str) -> Submit:
        """Return the command's body, in the name of `by`; `now` in milliseconds.

        A delay is sent as a delay: it counts from the broker's time of the command.

        Raises:
            Refusal: 413, the input is too large; 422, an unknown priority, or a time beyond the
                payloads' retention.
        """
        if self.priority is not None and self.priority not in topology.priorities:
            known = ", ".join(topology.priorities)
            raise invalid("priority", f"{self.priority!r} is not one of {known}")
        run_at = None if self.run_at is None else milliseconds(self.run_at)
        delay_ms = None if self.delay_seconds is None else _milliseconds_of(self.delay_seconds)
        self._require_payload(topology, run_at - now if run_at is not None else delay_ms or 0)
        return Submit(
            type=self.type,
            input=stored_json(self.input, "input", MAX_INPUT_BYTES),
            priority=self.priority,
            run_at=run_at,
            delay_ms=delay_ms,
            timeout_seconds=self.timeout_seconds,
            workflow_id=self.workflow_id,
            callback_url=self.callback_url,
            submitted_by=by,
            request_hash=self.digest(),
            traceparent=traceparent,
        )

    def _require_payload(self, topology: Topology, ahead: int) -> None:
        kept = topology.topics["payloads"].retention_ms
        if kept is not None and ahead > kept:
            field = "run_at" if self.run_at is not None else "delay_seconds"
            days = kept / 86_400_000
            raise invalid(
                field, f"may be at most {days:g} days ahead, as long as payloads are kept"
            )


class CancelRequest(Body):
    """Body of `POST /v1/jobs/{id}/cancel`."""

    reason: Annotated[str, AfterValidator(bounded)] = ""


def _milliseconds_of(seconds: float) -> int:
    # Round up, so that nothing fires early (G4), but ignore the error of a float such as 1.1.
    return ceil(round(seconds * 1000, 3))

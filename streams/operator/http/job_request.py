"""Body of `POST /v1/tenants/{t}/jobs`, and the submission that it becomes."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from math import ceil
from typing import Annotated, Any, Self

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from streams.errors import LONGEST_WAIT_SECONDS
from streams.operator.http.app_state import SUBMITTED_BY
from streams.operator.http.links import web_link
from streams.operator.http.refusal import Refusal, invalid
from streams.serde.records import Submit
from streams.topology.model import Topology

_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE
)
_LATEST_MS = 253_402_300_799_999
"""The last millisecond that RFC 3339 can write."""
_PRINTABLE = r"^[^\x00-\x1f\x7f]+$"

MAX_INPUT_BYTES = 256 * 1024
"""Of the input as JSON that is kept: job, lease and result must each fit one message."""

Name = Annotated[str, Field(min_length=1, max_length=255, pattern=_PRINTABLE)]
Delay = Annotated[float, Field(ge=0, le=LONGEST_WAIT_SECONDS)]
Timeout = Annotated[float, Field(gt=0, le=7 * 86_400)]


def _writable(value: Any) -> Any:
    try:
        orjson.dumps([[value]])
    except orjson.JSONEncodeError:
        raise ValueError("is nested too deep") from None
    return value


Writable = Annotated[Any, AfterValidator(_writable)]
"""JSON that can be written as well as read, also inside what holds it."""


class JobRequest(BaseModel):
    """A direct submission; `input` is any JSON, times are seconds or RFC 3339."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    type: Name
    input: Writable = Field(default_factory=dict)
    priority: str | None = None
    delay_seconds: Delay | None = None
    run_at: str | None = None
    dedup_key: Name | None = None
    callback_url: str | None = None
    workflow_id: Name | None = None
    timeout_seconds: Timeout | None = None

    @field_validator("run_at")
    @classmethod
    def _moment(cls, text: str | None) -> str | None:
        if text is not None:
            milliseconds(text)
        return text

    @field_validator("callback_url")
    @classmethod
    def _link(cls, url: str | None) -> str | None:
        return web_link(url)

    @model_validator(mode="after")
    def _one_time(self) -> Self:
        if self.delay_seconds is not None and self.run_at is not None:
            raise ValueError("give delay_seconds or run_at, not both")
        return self

    def request_hash(self) -> bytes:
        """SHA-256 over the canonical JSON of the request: keys sorted, defaults filled in."""
        return hashlib.sha256(orjson.dumps(self.model_dump(), option=orjson.OPT_SORT_KEYS)).digest()

    def submission(self, topology: Topology, traceparent: str, now: int) -> Submit:
        """The command's body; `now` in milliseconds.

        A delay is sent as it was asked for: it counts from when the broker takes the command.

        Raises:
            Refusal: 413, the input is too large; 422, an unknown priority, or a time beyond the
                payloads' retention.
        """
        if self.priority is not None and self.priority not in topology.priorities:
            known = ", ".join(topology.priorities)
            raise invalid([("priority", f"{self.priority!r} is not one of {known}")])
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
            submitted_by=SUBMITTED_BY,
            request_hash=self.request_hash(),
            traceparent=traceparent,
        )

    def _require_payload(self, topology: Topology, ahead: int) -> None:
        kept = topology.topics["payloads"].retention_ms
        if kept is not None and ahead > kept:
            field = "run_at" if self.run_at is not None else "delay_seconds"
            days = kept / 86_400_000
            raise invalid([(field, f"at most {days:g} days ahead, as long as payloads are kept")])


def _milliseconds_of(seconds: float) -> int:
    # Up, so that nothing fires early (G4), but not for what a float adds to 1.1.
    return ceil(round(seconds * 1000, 3))


def stored_json(value: Any, field: str, most: int) -> str:
    """A value as the JSON text that is kept, which can be longer than what was sent.

    Raises:
        Refusal: 413, it has more than `most` bytes.
    """
    text = orjson.dumps(value)
    if len(text) > most:
        raise Refusal(413, "body-too-large", f"{field} has {len(text)} bytes as JSON that is kept, "
                      f"at most {most} are taken: store it and send a link")  # fmt: skip
    return text.decode()


def milliseconds(text: str) -> int:
    """An RFC 3339 time; the fraction is rounded up, so that nothing fires early (G4)."""
    if not _RFC3339.fullmatch(text):
        raise ValueError("must be an RFC 3339 time with an offset, as 2026-11-21T09:00:00Z")
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise ValueError(f"no such time: {error}") from None
    whole, micros = int(moment.replace(microsecond=0).timestamp()), moment.microsecond
    found = whole * 1000 + -(-micros // 1000)
    if not 0 <= found <= _LATEST_MS:
        raise ValueError("must lie between the years 1970 and 9999, in UTC")
    return found

"""Bodies of the calls on schedules."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from streams.api.fields import Body, Moment, Name, Writable, bounded, stored_json
from streams.api.jobs.job_request import MAX_INPUT_BYTES
from streams.api.refusal import invalid
from streams.http.moments import milliseconds
from streams.schedules.definition import GRACE_SECONDS, ID, LATEST, definition, require_future
from streams.schedules.timetable import WrongSchedule
from streams.serde.records import ScheduleSpec

Note = Annotated[str, AfterValidator(bounded)]


class ScheduleRequest(Body):
    """A schedule; give one of `cron`, `every_seconds` and `at`. Times are RFC 3339."""

    id: str
    job: Name
    input: Writable = Field(default_factory=dict)
    cron: str | None = None
    every_seconds: float | None = None
    at: Moment | None = None
    tz: str = "UTC"
    missed: str = LATEST
    grace_seconds: float = GRACE_SECONDS
    overlap: str = "allow"
    window_seconds: float = 0
    starts_at: Moment | None = Field(default=None, alias="from")
    until: Moment | None = None
    paused: bool | None = None
    note: Note = ""

    def spec(self, now: int) -> ScheduleSpec:
        """Return the definition; `now` is in milliseconds.

        Raises:
            Refusal: 413, the input is too large; 422, a field is wrong, or it would never fire.
        """
        input_ = stored_json(self.input, "input", MAX_INPUT_BYTES)
        if not ID.fullmatch(self.id):
            told = "use 1 to 128 letters, digits, `_`, `.`, `:` and `-`, first a letter or digit"
            raise invalid("id", told)
        try:
            spec = definition(
                self.job,
                input_,
                cron=self.cron,
                every_seconds=self.every_seconds,
                at=_ms(self.at),
                tz=self.tz,
                missed=self.missed,
                grace_seconds=self.grace_seconds,
                overlap=self.overlap,
                window_seconds=self.window_seconds,
                starts_at=_ms(self.starts_at),
                ends_at=_ms(self.until),
            )
            require_future(spec, now)
        except WrongSchedule as error:
            raise invalid(error.field, error.message) from None
        return spec


class NoteRequest(Body):
    """Body of a pause and of a resume."""

    note: Note = ""


def _ms(moment: str | None) -> int | None:
    return None if moment is None else milliseconds(moment)

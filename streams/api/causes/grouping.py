"""Which dead letters have one cause."""

from __future__ import annotations

from dataclasses import dataclass

from streams.api.causes.normalization import error_class, normalized
from streams.errors import DecodeError
from streams.serde import ids
from streams.serde.codec import JOB
from streams.serde.records import DeadLetter


@dataclass(frozen=True, slots=True)
class Failure:
    """What letters of one cause have in common.

    `origin` is the type of the jobs, or the stage and topic of the records. `code` is the version
    of the application that ran last, None where it is not known.
    """

    kind: str
    origin: str
    error_class: str
    message: str
    code: str | None

    @property
    def cause_id(self) -> str:
        """The id of the cause: the same on every operator."""
        return ids.cause_id(self.kind, self.origin, self.error_class, self.message, self.code)


def failure_of(letter: DeadLetter) -> Failure:
    """Return what failed in a letter."""
    is_job = letter.kind == "job"
    return Failure(
        letter.kind,
        (letter.type or "") if is_job else f"{letter.stage}/{letter.topic or ''}",
        error_class(letter.detail, letter.reason),
        normalized(letter.detail),
        _code(letter) if is_job else None,
    )


def _code(letter: DeadLetter) -> str | None:
    try:
        code: str | None = JOB.read(letter.value)["code"]
    except DecodeError:
        return None
    return code

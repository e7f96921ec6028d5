"""The refusal of a call: any function raises it, and `serving/problems.py` answers it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import ValidationError

from streams.api.remedy import Remedy
from streams.http.problem_document import CONTENT_TYPE, problem_document
from streams.model_faults import faults


class Refusal(Exception):
    """An error of a call: its status, the stable name of its type, and what the client does next.

    `remedy` is the call that the detail names, `extra` has further members of the problem.
    """

    content_type: ClassVar[str] = CONTENT_TYPE

    def __init__(
        self, status: int, name: str, detail: str, *, remedy: Remedy | None = None, **extra: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.name = name
        self.detail = detail
        self.extra = extra if remedy is None else {"remedy": remedy.json(), **extra}

    def json(self) -> dict[str, Any]:
        """Return what is answered: the problem, which an answer may contain beside others."""
        return problem_document(self.status, self.name, self.detail, **self.extra)


def invalid(field: str, message: str) -> Refusal:
    """Return the 422 for one field."""
    return all_invalid([(field, message)])


def all_invalid(errors: Sequence[tuple[str, str]]) -> Refusal:
    """Return the 422 that names every field at fault: (field, message)."""
    named = [{"field": field, "message": message} for field, message in errors]
    text = "; ".join(f"{field}: {message}" for field, message in errors)
    return Refusal(422, "invalid-request", text, errors=named)


def invalid_model(error: ValidationError) -> Refusal:
    """Return the 422 for a model's errors, without the values: one may be a secret."""
    return all_invalid(faults(error, "body"))


def key_reused(job_id: str, made: str) -> Refusal:
    """Return the 409 for an idempotency key that came before with another body."""
    belongs = f"this key belongs to {made}: send the same body, or a new key"
    return Refusal(409, "key-reused", belongs, job_id=job_id)


def unknown(what: str, id_: str, hint: str, remedy: Remedy) -> Refusal:
    """Return the 404 for an id; the hint names the remedy."""
    return Refusal(
        404, f"{what.replace(' ', '-')}-unknown", f"no {what} {id_!r}: {hint}", remedy=remedy
    )

"""Notes that a person writes down with a decision: kept with it, so never blank."""

from __future__ import annotations

from pydantic import AfterValidator


def noted(must: str) -> AfterValidator:
    """The note without the space around it; `must` is what a blank one is refused with."""

    def check(note: str) -> str:
        if not note.strip():
            raise ValueError(must)
        return note.strip()

    return AfterValidator(check)

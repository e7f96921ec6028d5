"""Notes that a person writes down with a decision: kept with it, so never blank."""

from __future__ import annotations

from pydantic import AfterValidator

MAX_NOTE_BYTES = 4_096


def bounded(note: str) -> str:
    """The note itself; it is bounded because it is part of records that must fit a message.

    Raises:
        ValueError: it is too long.
    """
    if (size := len(note.encode())) > MAX_NOTE_BYTES:
        raise ValueError(f"has {size} bytes, at most {MAX_NOTE_BYTES} are kept")
    return note


def noted(must: str) -> AfterValidator:
    """The note without the space around it; `must` is what a blank one is refused with."""

    def check(note: str) -> str:
        if not note.strip():
            raise ValueError(must)
        return bounded(note.strip())

    return AfterValidator(check)

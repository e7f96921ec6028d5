"""What the bench raises where the product refuses something, or the test left something out."""

from __future__ import annotations

from streams.errors import TidegateError


class Refused(TidegateError):
    """The product refuses what was asked; `reason` is its stable name, as `too_early`.

    The reasons of settlements are in docs/effects.md, those of replays in docs/jobs.md.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class Unprovided(AssertionError):
    """A handler did what its test did not provide for; the message says what to add."""

"""What the bench raises where the product refuses something, or the test left something out."""

from __future__ import annotations

from streams import user_json
from streams.errors import TidegateError


class Refused(TidegateError):
    """The product refuses what was asked; `reason` is its stable name, as `too_early`.

    The reasons of settlements are in docs/effects.md, those of replays in docs/jobs.md.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def require_json(value: object, what: str) -> str:
    """The JSON text of a value that a test gives.

    Raises:
        Refused: `not_json`; the message names the value by `what`.
    """
    try:
        return user_json.write(value).decode()
    except TypeError as error:
        raise Refused(
            "not_json",
            f"{what} is not JSON ({error}): give plain dicts, lists, strings and numbers",
        ) from None


class Unprovided(AssertionError):
    """A handler did what its test did not provide for; the message says what to add."""

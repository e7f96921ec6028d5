"""What commands of several resources print for people."""

from __future__ import annotations

from collections.abc import Callable

from streams.cli.cells import Json, console_of_any_width, print_fields, tell
from streams.cli.lists import listed

Show = Callable[[Json], None]

_LEFT_OUT = ("reason", "id", "detail")


def one(found: Json) -> None:
    """One thing, with all its fields."""
    print_fields(console_of_any_width(), found)


def number_matched(found: Json) -> str:
    """How many things match; the API counts them up to a bound."""
    return f"{found['matched']} or more" if found.get("matched_is_bound") else str(found["matched"])


def bulk(found: Json, done: str, able: str, what: str) -> None:
    """The result of a bulk call: what it did or would do, then what it left out and why."""
    left_out = found.get("left_out") or ()
    matched = number_matched(found)
    if found["dry_run"]:
        tell(f"{found[able]} of {matched} {what} that match would be {done}")
    else:
        tell(f"{found[done]} of {matched} {what} that match are {done}")
    if left_out:
        tell(f"{len(left_out)} left out:")
        listed(left_out, _LEFT_OUT, None)

"""Which waits of a run that parks end together, and how many and how large they may be."""

from __future__ import annotations

from collections.abc import Iterable

from streams.errors import PermanentError
from streams.serde.records import Wait, WaitGroup
from streams.serde.sizes import MAX_WAITS_BYTES

MOST_WAITS = 100
"""How many waits one park may have."""
MOST_PLACES = 2_000
"""How many waits the groups of one park may have; one that is in several counts in each."""


def grouped(awaited: Iterable[tuple[Wait, ...]]) -> tuple[Wait, ...]:
    """The waits, each once, with all groups that it is in; equal groups are one.

    Raises:
        PermanentError: they are too many, or too large, for one park.
    """
    groups = {frozenset((wait.id, wait.needs_all) for wait in waits): waits for waits in awaited}
    found: dict[str, Wait] = {}
    for number, waits in enumerate(groups.values()):
        for wait in {wait.id: wait for wait in waits}.values():
            others = found[wait.id].groups if wait.id in found else ()
            found[wait.id] = wait.in_groups((*others, WaitGroup(number, wait.needs_all)))
    check_number(len(found))
    _check_size(tuple(found.values()))
    return tuple(found.values())


def check_number(waits: int) -> None:
    """Return if so many waits may begin at once."""
    if waits > MOST_WAITS:
        raise PermanentError(f"{waits} waits at once: {MOST_WAITS} are the most")


def _check_size(waits: tuple[Wait, ...]) -> None:
    places = sum(len(wait.groups) for wait in waits)
    if places > MOST_PLACES:
        raise PermanentError(
            f"the groups of waits that tasks await at once name {places:,} waits: {MOST_PLACES:,} "
            "are the most"
        )
    size = sum(wait.size for wait in waits)
    if size > MAX_WAITS_BYTES:
        raise PermanentError(
            f"the names and matches of {len(waits)} waits at once have {size:,} bytes: "
            f"{MAX_WAITS_BYTES:,} are the most"
        )

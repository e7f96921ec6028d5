"""Which waits of a run that parks end together, and how many and how large they may be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from streams.errors import PermanentError
from streams.serde.records import Wait
from streams.serde.sizes import MAX_WAITS_BYTES

MOST_WAITS = 100
"""How many waits one park may have."""


def grouped(awaited: Iterable[tuple[Wait, ...]]) -> tuple[Wait, ...]:
    """The waits with the numbers of their groups; groups that share a wait are one.

    Any end goes on with such a group: the next run parks for what is left.

    Raises:
        PermanentError: they are too many, or too large, for one park.
    """
    groups: list[dict[str, Wait]] = []
    for waits in awaited:
        group = {wait.id: wait for wait in waits}
        for other in [each for each in groups if not group.keys().isdisjoint(each)]:
            groups.remove(other)
            group = {id_: replace(w, needs_all=False) for id_, w in (other | group).items()}
        groups.append(group)
    found = tuple(
        replace(wait, group=number)
        for number, group in enumerate(groups)
        for wait in group.values()
    )
    check_number(len(found))
    _check_size(found)
    return found


def check_number(waits: int) -> None:
    """Return if so many waits may begin at once."""
    if waits > MOST_WAITS:
        raise PermanentError(f"{waits} waits at once: {MOST_WAITS} are the most")


def _check_size(waits: tuple[Wait, ...]) -> None:
    size = sum(wait.size for wait in waits)
    if size > MAX_WAITS_BYTES:
        raise PermanentError(
            f"the names and matches of {len(waits)} waits at once have {size:,} bytes: "
            f"{MAX_WAITS_BYTES:,} are the most"
        )

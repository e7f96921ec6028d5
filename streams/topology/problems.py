"""Problems of a topology, before their file and line are known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from streams.topology.yaml_tree import KeyPath


@dataclass(frozen=True, slots=True)
class Problem:
    """A broken rule: what is wrong, and the keys of which any one can be changed to keep it.

    `paths` starts with the likeliest. The first one that the overlay itself wrote is shown, since
    that is the file that its author can change.
    """

    what: str
    paths: tuple[KeyPath, ...]


def problem(what: str, *paths: KeyPath) -> Problem:
    """A problem at one place or several."""
    return Problem(what, paths)


def near(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the nearest known name, otherwise empty."""
    found = get_close_matches(name, list(known), n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""

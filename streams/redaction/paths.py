"""JSON paths to fields that are secret, in a part of RFC 9535 that names places and no conditions.

`$.customer.email`, `$['odd name']`, `$.items[*].card`, `$.items[0].card`, `$..password`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from streams.redaction.secrets import MARK

_SEGMENT = re.compile(
    r"(?P<deep>\.\.)(?:(?P<deep_name>[^\W\d][\w-]*)|(?P<deep_all>\*)|(?=\[))"
    r"|\.(?:(?P<name>[^\W\d][\w-]*)|(?P<all>\*))"
    r"|\[(?:'(?P<quoted>[^'\\]+)'|\"(?P<quoted2>[^\"\\]+)\"|(?P<index>\d{1,9})|(?P<every>\*))\]"
)
_MOST_SEGMENTS = 32


@dataclass(frozen=True, slots=True)
class _Step:
    """One step down: to a member, to an item, or (None) to all; `deep` may go down before."""

    key: str | int | None
    deep: bool = False

    def leads_to(self, key: str | int) -> bool:
        return self.key is None or (type(self.key) is type(key) and self.key == key)


Path = tuple[_Step, ...]


def parsed(text: str) -> Path:
    """The steps of a path.

    Raises:
        ValueError: it is none; the message says what one looks like.
    """
    at, steps, deep = 1, list[_Step](), False
    while text.startswith("$") and at < len(text):
        found = _SEGMENT.match(text, at)
        if found is None:
            break
        at = found.end()
        if found["deep"] and not (found["deep_name"] or found["deep_all"]):
            deep = True
            continue
        steps.append(_step(found, deep or found["deep"] is not None))
        deep = False
    if at < len(text) or not steps or deep or len(steps) > _MOST_SEGMENTS:
        raise ValueError("a path as $.customer.email, $.items[*].card, $..password or $['a name']")
    return tuple(steps)


def _step(found: re.Match[str], deep: bool) -> _Step:
    if found["index"] is not None:
        return _Step(int(found["index"]), deep)
    name = found["deep_name"] or found["name"] or found["quoted"] or found["quoted2"]
    return _Step(name, deep)


class Fields:
    """The fields to which some paths lead."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = tuple(map(parsed, paths))

    def __bool__(self) -> bool:
        return bool(self._paths)

    def out_of(self, value: Any) -> Any:
        """The JSON value with a mark in the place of each such field; it shares what is equal."""
        return _without(value, frozenset(self._paths)) if self._paths else value


def _without(value: Any, paths: frozenset[Path]) -> Any:
    if isinstance(value, dict):
        return {key: _below(inner, key, paths) for key, inner in value.items()}
    if isinstance(value, list):
        return [_below(inner, index, paths) for index, inner in enumerate(value)]
    return value


def _below(value: Any, key: str | int, paths: frozenset[Path]) -> Any:
    """What stands at a key: a mark if a path ends there."""
    left = {path[1:] for path in paths if path[0].leads_to(key)}
    left |= {path for path in paths if path[0].deep}
    if () in left:
        return MARK
    return _without(value, frozenset(left)) if left else value

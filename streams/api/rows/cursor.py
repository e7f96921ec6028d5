"""Where a page ended: opaque to clients, and stable while new items appear before it."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True)
class Cursor:
    """Time (milliseconds) and id of the last item shown.

    In a list whose items move, `seen` is the newest change of the table that the walk has seen. An
    empty id then means that the walk is behind the last item, and goes on with later changes.
    """

    at: int
    id: str
    seen: int | None = None

    def __str__(self) -> str:
        parts = [self.at, self.id] if self.seen is None else [self.at, self.id, self.seen]
        return base64.urlsafe_b64encode(orjson.dumps(parts)).decode().rstrip("=")


def parse_cursor(text: str) -> Cursor:
    """Return the cursor in a query string.

    Raises:
        ValueError: `Cursor` did not make it.
    """
    at, id_, *seen = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    if type(id_) is not str or len(seen) > 1 or not all(map(_is_stored, (at, *seen))):
        raise ValueError("not a cursor")
    return Cursor(at, id_, *seen)


def _is_stored(number: object) -> bool:
    return type(number) is int and -(2**63) <= number < 2**63

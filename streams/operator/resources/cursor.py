"""Where a page ended: opaque to clients, and stable while new items appear before it."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True)
class Cursor:
    """Time (milliseconds) and id of the last item shown."""

    at: int
    id: str

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(orjson.dumps([self.at, self.id])).decode().rstrip("=")


def parse_cursor(text: str) -> Cursor:
    """Return the cursor in a query string.

    Raises:
        ValueError: `Cursor` did not make it.
    """
    at, id_ = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    if type(at) is not int or type(id_) is not str or not -(2**63) <= at < 2**63:
        raise ValueError("not a cursor")
    return Cursor(at, id_)

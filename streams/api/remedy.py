"""The call that helps after a refusal: programs find it in the problem, people see a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson


@dataclass(frozen=True, slots=True)
class Remedy:
    """A call of the API; as a text it is what the detail of a problem names."""

    method: str
    path: str
    body: str | None = None
    """JSON, if the call needs a certain one."""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.method, self.path, self.body)))

    def json(self) -> dict[str, Any]:
        """Return the member `remedy` of a problem."""
        call = {"method": self.method, "path": self.path}
        return call if self.body is None else {**call, "body": orjson.loads(self.body)}


def get(*parts: str) -> Remedy:
    """Return the call that shows what is at a path below `/v1`."""
    return Remedy("GET", _path(parts))


def put(*parts: str, body: str | None = None) -> Remedy:
    """Return the call that creates or changes what is at a path below `/v1`."""
    return Remedy("PUT", _path(parts), body)


def _path(parts: tuple[str, ...]) -> str:
    return "/".join(("/v1", *(quote(part, safe=":@~") for part in parts)))

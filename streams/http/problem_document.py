"""The object of an error's answer (RFC 9457), the same for every server.

`type` is stable (`urn:tidegate:problem:<name>`), so clients decide by it. `detail` says what is
wrong with this request and what to do about it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

CONTENT_TYPE = "application/problem+json"


def problem_document(
    status: int, name: str, detail: str | None, *, title: str | None = None, **extra: Any
) -> dict[str, Any]:
    """Return the object; `name` is in kebab-case, `extra` has further members."""
    return {
        "type": f"urn:tidegate:problem:{name}",
        "title": title or HTTPStatus(status).phrase,
        "status": status,
        **({} if detail is None else {"detail": detail}),
        **extra,
    }

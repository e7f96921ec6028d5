"""Errors over HTTP as `application/problem+json` (RFC 9457), the same for every server.

`type` is stable (`urn:tidegate:problem:<name>`), so clients decide by it. `detail` says what is
wrong with this request and what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web

CONTENT_TYPE = "application/problem+json"


def problem(
    status: int,
    name: str,
    detail: str | None,
    *,
    title: str | None = None,
    headers: Mapping[str, str] | None = None,
    **extra: Any,
) -> web.Response:
    """An error's answer: `name` is in kebab-case, `extra` has further members of the object."""
    body = problem_json(status, name, detail, title=title, **extra)
    return web.Response(
        status=status,
        body=orjson.dumps(body, option=orjson.OPT_APPEND_NEWLINE),
        content_type=CONTENT_TYPE,
        headers=headers,
    )


def problem_json(
    status: int, name: str, detail: str | None, *, title: str | None = None, **extra: Any
) -> dict[str, Any]:
    """The object alone, for an answer that contains several."""
    return {
        "type": f"urn:tidegate:problem:{name}",
        "title": title or HTTPStatus(status).phrase,
        "status": status,
        **({} if detail is None else {"detail": detail}),
        **extra,
    }

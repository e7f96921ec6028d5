"""Errors over HTTP as `application/problem+json`: `problem_document` says what they contain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web

from streams.http.problem_document import CONTENT_TYPE, problem_document


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
    body = problem_document(status, name, detail, title=title, **extra)
    return web.Response(
        status=status,
        body=orjson.dumps(body, option=orjson.OPT_APPEND_NEWLINE),
        content_type=CONTENT_TYPE,
        headers=headers,
    )

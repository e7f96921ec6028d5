"""Holds each answer of the API in a test to the document: its status, its kind, its problem."""

from __future__ import annotations

from functools import cache
from typing import Any

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler
from jsonschema import Draft202012Validator

from support.api_document.files import made
from support.api_document.requests import plain_path


@web.middleware
async def documented(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 500 in place of what the document of the API does not have."""
    answer = await handler(request)
    resource = request.match_info.route.resource
    declared = _call(request.method, "" if resource is None else resource.canonical)
    if declared is None:
        return answer
    fault = _fault(declared, answer)
    if fault is None:
        return answer
    told = f"{request.method} {request.path_qs}: {answer.status} {fault}; see docs/api.md"
    return web.json_response({"detail": told}, status=500)


def _call(method: str, path: str) -> dict[str, Any] | None:
    calls = made()["paths"].get(plain_path(path), {})
    found: dict[str, Any] | None = calls.get("get" if method == "HEAD" else method.lower())
    return found


def _fault(declared: dict[str, Any], answer: web.StreamResponse) -> str | None:
    told = declared["responses"].get(str(answer.status))
    if told is None:
        return "is not documented"
    if "$ref" in told:
        told = made()["components"]["responses"][told["$ref"].rpartition("/")[2]]
    if not isinstance(answer, web.Response) or not answer.body:
        return None
    kinds = told.get("content", {})
    if answer.content_type not in kinds:
        return f"has the undocumented type {answer.content_type}"
    if not answer.content_type.endswith("json") or not isinstance(answer.body, bytes):
        return None
    schema = orjson.dumps(kinds[answer.content_type]["schema"])
    error = next(_validator(schema).iter_errors(orjson.loads(answer.body)), None)
    return None if error is None else f"at {error.json_path}: {error.message[:300]}"


@cache
def _validator(schema: bytes) -> Any:
    return Draft202012Validator({**orjson.loads(schema), "components": made()["components"]})

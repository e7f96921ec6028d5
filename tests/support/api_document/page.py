"""`docs/api.md`: the document for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

_HEAD = """\
# API reference

This page is for developers who look up one call: its parameters, who may make it, and what it
answers. It is generated from [the OpenAPI document](http-api.md#the-openapi-document); `make api`
writes both. How calls are made, in examples, is on the page about [HTTP](http-api.md).

Every call but the open ones may be refused with 401 `unauthorized` or `session-over`, 403
`permission-missing`, `foreign-origin` or `csrf-token-wrong`, 429 `too-many-failures`, and 503
`not-ready` or `issuer-unavailable`; one with a body with 400 `malformed-json`, 413
`body-too-large` and 422 `invalid-request`; one that changes something with 503
`kafka-unavailable`. These are not repeated below, and neither is the header `X-Request-Id`, which
every call may have. Where a list says "and a stage's reason", the
type of the problem is the reason for which a stage refused the command.
"""
_OF_EVERY_CALL = "X-Request-Id"
_COMMON = frozenset(
    {
        "unauthorized",
        "session-over",
        "foreign-origin",
        "csrf-token-wrong",
        "issuer-unavailable",
        "permission-missing",
        "too-many-failures",
        "not-ready",
        "malformed-json",
        "body-too-large",
        "invalid-request",
        "kafka-unavailable",
    }
)


def page(document: Json) -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_sections(document)]) + "\n"


def _sections(document: Json) -> Iterator[str]:
    for tag in document["tags"]:
        yield f"## {tag['name'].capitalize()}\n"
        yield "| call | permission | does | answers |"
        yield "|---|---|---|---|"
        for path, calls in document["paths"].items():
            for method, call in calls.items():
                if tag["name"] in call["tags"]:
                    yield _row(document, method.upper(), path, call)
        yield ""


def _row(document: Json, method: str, path: str, call: Json) -> str:
    cells = (
        f"`{method} {path}`",
        f"`{call['x-tidegate-permission']}`" if call["x-tidegate-permission"] else "none",
        " ".join(filter(None, (call["summary"], _given(document, call)))),
        _answers(document, call),
    )
    return f"| {' | '.join(each.replace('|', '&#124;') for each in cells)} |"


def _given(document: Json, call: Json) -> str:
    """What a call takes beside its path."""
    query = [p["name"] for p in call.get("parameters", ()) if p["in"] == "query"]
    headers = [p["name"] for p in call.get("parameters", ()) if p["in"] == "header"]
    headers = [name for name in headers if name != _OF_EVERY_CALL]
    told = [f"Query: {_list(query)}."] if query else []
    told += [f"Headers: {_list(headers)}."] if headers else []
    if "requestBody" in call:
        content = call["requestBody"]["content"]["application/json"]
        name = content["schema"]["$ref"].rpartition("/")[2]
        model = document["components"]["schemas"][name]
        needed = set(model.get("required", ()))
        fields = [f"`{f}`" + "*" * (f in needed) for f in model.get("properties", ())]
        told.append(f"Body: {', '.join(fields)}." if fields else "Body: may be left out.")
    return " ".join(told).replace("`*", "` (needed)")


def _answers(document: Json, call: Json) -> str:
    return "; ".join(filter(None, (_answer(document, *each) for each in call["responses"].items())))


def _answer(document: Json, status: str, answer: Json) -> str:
    if "$ref" in answer:
        answer = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    content = answer.get("content", {})
    if int(status) < 400:
        kinds = [f"`{kind}`" for kind in content if kind != "application/json"]
        return " ".join([status, *kinds])
    names = answer.get("x-tidegate-problems", ())
    shown = [f"`{name}`" for name in names if name not in _COMMON | {"*"}]
    shown += ["a stage's reason"] if "*" in names else []
    return f"{status} {', '.join(shown)}" if shown else ""


def _list(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)

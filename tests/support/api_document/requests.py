"""Parameters and bodies of calls, as the code reads them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from streams.api.serving.listing import DEFAULT_LIMIT, MAX_LIMIT
from support.api_document.examples import EXAMPLES
from support.api_document.routes import Route
from support.api_document.source import Function

Json = dict[str, Any]

_REF = "#/components/schemas/{model}"
_PAGING: dict[str, Json] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    "cursor": {"type": "string"},
}
_ABOUT = {
    "limit": "How many items a page has at most.",
    "cursor": "The `next_cursor` of the page before.",
    "Idempotency-Key": "The same key with the same body does the same thing once.",
    "If-Match": "Change it only if one of these is its `ETag`; `*`: only if it exists.",
    "If-None-Match": "`*`: create it only if it does not exist.",
    "Last-Event-ID": "The id of the last event that was received.",
    "last_event_id": "As the header `Last-Event-ID`, which takes precedence.",
    "ticket": "A ticket in place of a token; it opens one stream.",
    "jobs": "1 to 100 ids of jobs, separated by commas.",
    "X-Request-Id": "What the audit calls this request; one is made if it is left out.",
    "traceparent": "The caller's trace (W3C Trace Context).",
    "subjectPrefix": "What the subjects begin with.",
}
_OF_EVERY_CALL = frozenset({"Authorization", "If-None-Match"})
_EXAMPLES_IN_PATH = {"tenant_id": "acme", "source": "shop", "endpoint": "crm"}


def parameters(route: Route) -> list[Json]:
    """The parameters of a call: in its path, in its query, in its headers."""
    return [*_of_path(route), *_of_query(route), *_of_headers(route)]


def plain_path(path: str) -> str:
    """A path without the patterns of its parts."""
    return re.sub(r"{(\w+):(?:[^{}]|{[^}]*})*}", r"{\1}", path)


def _of_path(route: Route) -> Iterator[Json]:
    for name in re.findall(r"{(\w+)}", plain_path(route.call.path)):
        example = _EXAMPLES_IN_PATH.get(name)
        shown = {} if example is None else {"example": example}
        schema = {"type": "string", "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema, **shown}


def _of_query(route: Route) -> Iterator[Json]:
    filters, times = route.filters, route.listing.times if route.listing else ()
    if filters is not None:
        for name, values in filters.items():
            schema: Json = {"type": "string"}
            if values:
                schema["enum"] = sorted(values)
            yield _in_query(name, schema)
        for name in times:
            if name not in filters:
                yield _in_query(name, {"type": "string", "format": "date-time"})
        for name, schema in _PAGING.items():
            own = {"maximum": route.most, "default": route.most} if route.most else {}
            yield _in_query(name, schema | (own if name == "limit" else {}))
    known = {*(filters or ()), *times, *(_PAGING if filters is not None else ())}
    for name in sorted(_read("query", route) - known):
        yield _in_query(name, {"type": "string"})


def _in_query(name: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "schema": schema, **_about(name)}


def _of_headers(route: Route) -> Iterator[Json]:
    conditions = ("If-Match", "If-None-Match") if is_conditional(route) else ()
    key = ("Idempotency-Key",) if route.call.is_keyed else ()
    for name in sorted({*(_read("headers", route) - _OF_EVERY_CALL), *conditions, *key}):
        yield {"name": name, "in": "header", "schema": {"type": "string"}, **_about(name)}


def is_conditional(route: Route) -> bool:
    """Whether a call changes a thing that has an `ETag`."""
    return route.call.tagged is not None and route.call.method != "GET"


def _about(name: str) -> Json:
    return {"description": _ABOUT[name]} if name in _ABOUT else {}


def _read(part: str, route: Route) -> set[str]:
    """The names that the code of a call reads from the query or from the headers."""
    return {name for of in route.served for name in _names_read(part, of, route)}


def _names_read(part: str, of: Function, route: Route) -> Iterator[str]:
    for node in of.nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="get"), args=[name, *_]) if (
                ast.unparse(owner).split(".")[-1] == part
            ):
                if isinstance(name, ast.Constant):
                    yield str(name.value)
                elif isinstance(name, ast.Name) and of.name == "_says":
                    yield from _said(route)
            case _:
                pass


def _said(route: Route) -> Iterator[str]:
    for of in route.served:
        for node in of.nodes:
            match node:
                case ast.Call(func=ast.Name(id="_says"), args=[_, ast.Constant(value=name)]):
                    yield str(name)
                case _:
                    pass


def body(model: type[BaseModel]) -> Json:
    """The body of a call, with an example."""
    needed = any(field.is_required() for field in model.model_fields.values())
    schema = {"$ref": _REF.format(model=model.__name__)}
    content: Json = {"schema": schema}
    if model.__name__ in EXAMPLES:
        content["example"] = EXAMPLES[model.__name__]
    elif not needed:
        content["example"] = {}
    return {"required": needed, "content": {"application/json": content}}


def schemas(models: set[type[BaseModel]]) -> Json:
    """The components of bodies."""
    wanted = sorted(models, key=lambda model: model.__name__)
    _, found = models_json_schema([(m, "validation") for m in wanted], ref_template=_REF)
    made: Json = found.get("$defs", {})
    return made

"""Answers of calls by status: what the code of a call makes, and what it refuses."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from typing import Any

from streams.api.serving.call import EVERY_TENANT, OPEN, ROW, TENANT_IN_PATH
from streams.api.serving.listing import ONLY_OF
from streams.errors import TidegateError
from streams.http.problem_document import CONTENT_TYPE
from support.api_document.refusals import ANY, NAMED_LATER, Problems, problems_of
from support.api_document.requests import is_conditional
from support.api_document.routes import Route, code_of
from support.api_document.shapes import Shapes, either, not_null
from support.api_document.source import Function, assigned, function, reachable, target

Json = dict[str, Any]

_JSON = "application/json"
_STREAM = "text/event-stream"
_STREAMED = {"streams.api.serving.attachment": "application/octet-stream"}
"""What is sent piece by piece and is no stream of events, by the module that sends it."""
PROBLEM = "#/components/schemas/Problem"
_TYPE = "urn:tidegate:problem:"
_MOST_IN_NAME = 3
_MAKE = frozenset({"json_response", "Response", "StreamResponse", "list_answer"})
_BY_OTHERS = frozenset({"refused", "answer_to", "problem"})
_ETAG: Json = {"ETag": {"schema": {"type": "string"}, "description": "Names the present settings."}}
OF_REGISTRY = "application/vnd.schemaregistry.v1+json"


class Answers:
    """The answers of calls; `shapes` has the components that they refer to."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self.problem_types: dict[str, set[int]] = {}
        self.responses: dict[str, Json] = {}
        """Refusals that many calls have, by a name that says which problems they are."""

    def of(self, route: Route) -> dict[str, Json]:
        """The answers of a call by status."""
        found: dict[int, Json] = {}
        for status, content_type, schema in self._made(route):
            made = found.setdefault(status, {"description": _phrase(status), "content": {}})
            if content_type is None or status == HTTPStatus.NO_CONTENT:
                del made["content"]
            else:
                made["content"][content_type] = {"schema": schema}
        for status, names in sorted(problems(route).items()):
            found[status] = self._refused(status, names, route)
        if route.call.tagged is not None and route.call.method in ("GET", "PUT"):
            found[200]["headers"] = _ETAG
        return {str(status): found[status] for status in sorted(found)}

    def _made(self, route: Route) -> Iterator[tuple[int, str | None, Json]]:
        for of in route.served:
            if of.name in _BY_OTHERS:
                continue
            for node in of.nodes:
                if isinstance(node, ast.Call) and _name(node.func) in _MAKE:
                    yield from self._answer(route, of, node)

    def _answer(
        self, route: Route, of: Function, made: ast.Call
    ) -> Iterator[tuple[int, str | None, Json]]:
        given = {word.arg: word.value for word in made.keywords}
        if _name(made.func) == "list_answer":
            yield 200, _JSON, self._list(route, of, made)
        elif of.name == "list_answer":
            return
        elif _name(made.func) == "StreamResponse":
            yield 200, _STREAMED.get(of.module, _STREAM), {}
        elif _name(made.func) == "json_response":
            schema = not_null(self._shown(route, of, made.args[0])) or {"type": "object"}
            for status in _statuses(of, given.get("status")):
                yield status, _JSON, schema
        else:
            kind = _constant(of, given.get("content_type"))
            binary = {} if kind != OF_REGISTRY else {"type": ["object", "array", "integer"]}
            for status in _statuses(of, given.get("status")):
                yield status, kind, binary

    def _shown(self, route: Route, of: Function, value: ast.expr) -> Json:
        """The schema of what is answered; a function that is given it is called with it."""
        names = [each.arg for each in of.node.args.args]
        if not isinstance(value, ast.Name) or value.id not in names:
            return self.shapes.of(of, value)
        found = [
            self.shapes.of(caller, node.args[names.index(value.id)])
            for caller in route.served
            for node in caller.nodes
            if isinstance(node, ast.Call) and target(caller, node.func) is of and node.args
        ]
        return either(found)

    def _list(self, route: Route, of: Function, made: ast.Call) -> Json:
        items, name = self._items(route, of, made), _constant(of, made.args[0])
        if route.listing is not None:
            name = route.listing.name
        fields: Json = {str(name): {"type": "array", "items": items}}
        fields |= self._beside(code_of(route.shows))
        if route.listing is not None and route.listing.by:
            fields[ONLY_OF] = {"type": ["string", "null"]}
        fields["next_cursor"] = {"type": ["string", "null"]}
        return {"type": "object", "properties": fields, "required": list(fields)}

    def _items(self, route: Route, of: Function, made: ast.Call) -> Json:
        """The schema of a list's items: of the first function below it that makes one."""
        if route.listing is not None:
            start = code_of(route.shows)
            return {"type": "object"} if start is None else self._first_json(start)
        for value in (made.args[1], *assigned(of, getattr(made.args[1], "id", ""))):
            for node in ast.walk(value):
                if isinstance(node, ast.Name | ast.Attribute):
                    found = target(of, node)
                    if found is not None and "Page" in found.returns:
                        return self._first_json(found)
        return {"type": "object"}

    def _beside(self, page: Function | None) -> Json:
        """The members of a list's answer beside the list."""
        if page is None:
            return {}
        made = [self.shapes.of(page, value) for value in assigned(page, "beside")]
        return {name: shape for each in made for name, shape in each["properties"].items()}

    def _first_json(self, start: Function) -> Json:
        if start.returns == "Json":
            return self.shapes.returned(start) or {"type": "object"}
        for node in start.nodes:
            if isinstance(node, ast.Name | ast.Attribute):
                found = target(start, node)
                if found is not None and found.returns == "Json":
                    return self.shapes.returned(found) or {"type": "object"}
                if found is not None and found.returns == "Page":
                    return self._first_json(found)
        return {"type": "object"}

    def _refused(self, status: int, names: set[str], route: Route) -> Json:
        """A refusal; one of few problems is a component, as many calls have it."""
        made = self._problem(status, names, route)
        if ANY in names or len(names) > _MOST_IN_NAME or of_registry(route):
            return made
        name = ".".join([str(status), *sorted(names)])
        self.responses[name] = made
        return {"$ref": f"#/components/responses/{name}"}

    def _problem(self, status: int, names: set[str], route: Route) -> Json:
        for name in names - {ANY}:
            self.problem_types.setdefault(name, set()).add(status)
        schema: Json = {"$ref": PROBLEM}
        listed = [f"{_TYPE}{name}" for name in sorted(names - {ANY})]
        if listed and ANY not in names:
            schema = {"allOf": [schema, {"properties": {"type": {"enum": listed}}}]}
        content: Json = {}
        if names:
            content[CONTENT_TYPE] = {"schema": schema}
            if listed:
                content[CONTENT_TYPE]["example"] = example(status, listed[0])
        if of_registry(route) and status in (404, 422):
            content[OF_REGISTRY] = {"schema": {"$ref": "#/components/schemas/RegistryError"}}
        told = {"x-tidegate-problems": sorted(names)} if names else {}
        return {"description": _phrase(status), "content": content, **told}


def example(status: int, type_: str) -> Json:
    """A problem as an example."""
    return {"type": type_, "title": _phrase(status), "status": status, "detail": "What to do."}


def problems(route: Route) -> Problems:
    """The names of the problems of a call by status, also of those that guard every call."""
    found = problems_of(route.functions)
    call = route.call
    if call.of is not OPEN:
        for status, names in _of_guards().items():
            found[status] |= names
        found[403].add("permission-missing")
    if call.of is EVERY_TENANT:
        found[403].add("every-tenant-needed")
    if call.of is TENANT_IN_PATH:
        found[404].add("tenant-unknown")
    if route.listing is not None and call.of is not TENANT_IN_PATH:
        found[404].discard("tenant-unknown")
    if call.of is ROW and not found[404]:
        found[404].add(ANY)
    if route.body is not None:
        found[400].add("malformed-json")
        found[413].add("body-too-large")
        found[422].add("invalid-request")
    if is_conditional(route):
        found[412].add("precondition-failed")
        found[422].add("invalid-request")
    found[503].add("not-ready")
    if call.method != "GET":
        found[503].add("kafka-unavailable")
    return {status: names for status, names in found.items() if names or of_registry(route)}


@cache
def _of_guards() -> Problems:
    """What a call is refused with before its handler is asked: nobody who is known makes it."""
    start = function("streams.api.serving.access.authenticated")
    if start is None:
        raise TidegateError("no code of the authentication was found")
    return problems_of(reachable(start, NAMED_LATER))


def of_registry(route: Route) -> bool:
    """Whether a call is one of the schema registry, whose errors have a shape of their own."""
    return route.resource == "schemas"


def _statuses(of: Function, given: ast.expr | None) -> list[int]:
    match given:
        case None:
            return [200]
        case ast.Constant(value=int(status)):
            return [status]
        case ast.IfExp(body=ast.Constant(value=int(one)), orelse=ast.Constant(value=int(other))):
            return [one, other]
        case ast.Subscript(value=ast.Name(id=name)):
            statuses = vars(importlib.import_module(of.module))[name]
            return sorted({int(each) for each in statuses.values()})
    raise TidegateError(f"a status that only a run tells: {ast.unparse(given)}")


def _constant(of: Function, expression: ast.expr | None) -> str | None:
    if isinstance(expression, ast.Constant):
        return str(expression.value)
    if isinstance(expression, ast.Name):
        found = vars(importlib.import_module(of.module)).get(expression.id)
        return found if isinstance(found, str) else None
    return None


def _name(expression: ast.expr) -> str:
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase

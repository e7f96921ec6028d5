"""The document: every call of the API, in the form of OpenAPI 3.1."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from pydantic import BaseModel

from streams.api.live.http import PATHS as STREAMS
from streams.api.serving.session_cookies import SESSION
from streams.errors import TidegateError
from support.api_document import requests
from support.api_document.answers import Answers
from support.api_document.routes import Route, declared
from support.api_document.samples import sample
from support.api_document.shapes import Shapes

Json = dict[str, Any]

_ABOUT = (
    "Whatever an operator sees and does. Every call but the open ones needs a token. "
    "An error is a problem (RFC 9457) whose `type` is stable."
)
_SCHEMES: Json = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token of the API."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": SESSION,
        "description": "The session of a person who signed in; see docs/access.md.",
    },
    "ticket": {"type": "apiKey", "in": "query", "name": "ticket", "description": "Of one stream."},
}
_PROBLEM: Json = {
    "type": "object",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string", "pattern": "^urn:tidegate:problem:[a-z0-9-]+$"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong, and what to do about it."},
        "errors": {
            "type": "array",
            "description": "Each field at fault.",
            "items": {
                "type": "object",
                "required": ["field", "message"],
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
            },
        },
        "remedy": {
            "type": "object",
            "description": "The call that helps.",
            "required": ["method", "path"],
            "properties": {"method": {"type": "string"}, "path": {"type": "string"}, "body": {}},
        },
    },
}
_REGISTRY_ERROR: Json = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
}


def document() -> Json:
    """The whole document."""
    shapes, paths, models = Shapes(), dict[str, Json](), set[type[BaseModel]]()
    answers, tags = Answers(shapes), set[str]()
    for route in sorted(declared(), key=lambda r: (r.resource, r.call.path)):
        path = requests.plain_path(route.call.path)
        paths.setdefault(path, {})[route.call.method.lower()] = _operation(route, answers)
        tags.add(_tag(route))
        if route.body is not None:
            models.add(route.body)
    own = {**shapes.components, "Problem": _PROBLEM, "RegistryError": _REGISTRY_ERROR}
    bodies = requests.schemas(models)
    if both := own.keys() & bodies.keys():
        raise TidegateError(f"schemas of two things: {', '.join(sorted(both))}")
    schemas = {**own, **bodies}
    _show(paths, schemas)
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {"title": "Tidegate", "version": version("tidegate"), "description": _ABOUT},
        "tags": [{"name": tag} for tag in sorted(tags)],
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "responses": dict(sorted(answers.responses.items())),
            "securitySchemes": _SCHEMES,
        },
    }


def _operation(route: Route, answers: Answers) -> Json:
    call, (summary, _, rest) = route.call, route.about.partition("\n\n")
    made: Json = {
        "operationId": operation_id(route),
        "tags": [_tag(route)],
        "summary": " ".join(summary.split()),
        "x-tidegate-permission": call.needs,
        "x-tidegate-scope": call.of.name.lower(),
    }
    if rest:
        made["description"] = rest
    if call.verb:
        made["x-tidegate-verb"] = call.verb
    if call.needs is None:
        made["security"] = []
    elif call.path in STREAMS:
        made["security"] = [{"token": []}, {"session": []}, {"ticket": []}]
    if parameters := requests.parameters(route):
        made["parameters"] = parameters
    if route.body is not None:
        made["requestBody"] = requests.body(route.body)
    return {**made, "responses": answers.of(route)}


def _show(paths: dict[str, Json], schemas: dict[str, Json]) -> None:
    """Give each answer of JSON an example."""
    for calls in paths.values():
        for call in calls.values():
            for answer in call["responses"].values():
                content = answer.get("content", {}).get("application/json")
                if content is not None and content["schema"]:
                    content["example"] = sample(content["schema"], schemas)


def operation_id(route: Route) -> str:
    """A name of a call that no other one has: its method and its path in words."""
    path = requests.plain_path(route.call.path).removeprefix("/v1")
    words = "".join(c if c.isalnum() else " " for c in path).split()
    return "_".join([route.call.method.lower(), *words])


def _tag(route: Route) -> str:
    return route.resource.replace("_", " ")

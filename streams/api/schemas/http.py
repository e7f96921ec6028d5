"""A read-only schema registry: the calls by which readers of the topics find schemas.

Paths, answers and error codes are those of Confluent's registry (its API reference, "Schemas",
"Subjects", "Mode", "Config"), so that its clients work as they are. Ids are those of the records,
from `schemas/ids.lock`; nobody can add to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler
from fastavro.schema import SchemaParseException, UnknownType, parse_schema

from streams.api.serving.problems import OwnAnswer
from streams.api.serving.state import STATE
from streams.serde.schemas import Schema, by_id, digest
from streams.serde.subjects import subjects, versions

routes = web.RouteTableDef()

ROOTS = ("/schemas/", "/subjects", "/associations/", "/config", "/mode")
"""What the paths of all calls begin with."""

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_ALL_CONTEXTS = ":*:"
"""The prefix by which clients ask for the subjects of all contexts; here there is one."""
_LONGEST_SCHEMA = 64 * 1024
_ID, _SUBJECT = "/schemas/ids/{id}", "/subjects/{subject}"
_VERSION = _SUBJECT + "/versions/{version}"


class RegistryError(OwnAnswer):
    """An error as a registry tells it; the first three digits of its code are the status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.detail = message

    def response(self) -> web.Response:
        status = int(str(self.code)[:3])
        return _answer({"error_code": self.code, "message": self.detail}, status)


@routes.get("/schemas/types")
async def types(_: web.Request) -> web.Response:
    """List the kinds of schemas."""
    return _answer(["AVRO"])


@routes.get(_ID)
async def schema_of_id(request: web.Request) -> web.Response:
    """Show a schema, as a text within JSON."""
    return _answer({"schema": _by_id(request).text})


@routes.get(_ID + "/schema")
async def text_of_id(request: web.Request) -> web.Response:
    """Show a schema itself."""
    return _text(_by_id(request))


@routes.get(_ID + "/subjects")
async def subjects_of_id(request: web.Request) -> web.Response:
    """List the subjects that have a schema."""
    return _page(request, _subjects(request, _by_id(request)))


@routes.get(_ID + "/versions")
async def versions_of_id(request: web.Request) -> web.Response:
    """List the versions that a schema is, by subject."""
    found = _by_id(request)
    names = _subjects(request, found)
    return _page(request, [{"subject": name, "version": found.version} for name in names])


@routes.get("/subjects")
async def all_subjects(request: web.Request) -> web.Response:
    """List all subjects, or those that begin with `subjectPrefix`."""
    begin = request.query.get("subjectPrefix", "").removeprefix(_ALL_CONTEXTS)
    found = [] if _says(request, "deletedOnly") else _subjects(request)
    return _page(request, [name for name in found if name.startswith(begin)])


@routes.post(_SUBJECT)
async def look_up(request: web.Request) -> web.Response:
    """Show the version of a subject that a schema is."""
    return _answer(_version_json(request, await _same(request)))


@routes.get(_SUBJECT + "/versions")
async def versions_of_subject(request: web.Request) -> web.Response:
    """List the versions of a subject."""
    found = _versions(request)
    if _says(request, "deletedOnly"):
        raise _no_subject(request)  # nothing is ever deleted
    return _page(request, [schema.version for schema in found])


@routes.post(_SUBJECT + "/versions")
async def register(request: web.Request) -> web.Response:
    """Tell the id of a schema that is there already; serializers ask this before they write."""
    try:
        return _answer({"id": (await _same(request)).id})
    except RegistryError as error:
        if error.code == 42201:
            raise
        raise RegistryError(
            42205, "this registry is read-only: a schema comes with a version of Tidegate"
        ) from error


@routes.get(_VERSION)
async def version(request: web.Request) -> web.Response:
    """Show a version of a subject."""
    return _answer(_version_json(request, _version(request)))


@routes.get(_VERSION + "/schema")
async def text_of_version(request: web.Request) -> web.Response:
    """Show the schema itself."""
    return _text(_version(request))


def _of_registry(told: dict[str, str]) -> Handler:
    """Return the handler of what is the same of the whole registry and of each subject.

    With `defaultToGlobal` it is told of any subject.
    """

    async def handle(request: web.Request) -> web.Response:
        if "subject" in request.match_info and not _says(request, "defaultToGlobal"):
            _versions(request)
        return _answer(told)

    return handle


for _path, _told in (
    ("/config", {"compatibilityLevel": "BACKWARD_TRANSITIVE"}),  # a reader reads all older versions
    ("/mode", {"mode": "READONLY"}),  # nothing can be registered
):
    routes.get(_path)(_of_registry(_told))
    routes.get(_path + "/{subject}")(_of_registry(_told))


@routes.get("/associations/{rest:.*}")
async def associations(_: web.Request) -> web.Response:
    """Tell newer clients, which ask this first, that a subject follows from the topic's name."""
    raise RegistryError(40401, "this registry has no associations")


def _by_id(request: web.Request) -> Schema:
    given = request.match_info["id"]
    found = by_id().get(int(given)) if given.isdecimal() and len(given) < 10 else None
    if found is None:
        raise RegistryError(40403, f"Schema {given} not found")
    return found


def _versions(request: web.Request) -> tuple[Schema, ...]:
    state, wanted = request.app[STATE], request.match_info["subject"]
    found = versions(wanted, state.topic_prefix, tuple(state.topology.topics))
    if not found:
        raise _no_subject(request)
    return found


def _no_subject(request: web.Request) -> RegistryError:
    return RegistryError(40401, f"Subject '{request.match_info['subject']}' not found.")


def _says(request: web.Request, name: str) -> bool:
    return request.query.get(name, "").lower() == "true"


def _page(request: web.Request, found: Sequence[object]) -> web.Response:
    """A part of a list: `limit` entries behind `offset`, all if it is negative or not given."""
    try:
        offset, limit = (
            int(request.query.get(n, d)) for n, d in (("offset", "0"), ("limit", "-1"))
        )
    except ValueError:
        raise RegistryError(404, "HTTP 404 Not Found") from None
    rest = found[max(0, offset) :]
    return _answer(rest if limit < 0 else rest[:limit])


def _version(request: web.Request) -> Schema:
    found, given = _versions(request), request.match_info["version"]
    if given in ("latest", "-1"):
        return found[-1]
    if not given.isdecimal() or len(given) > 9 or int(given) < 1:
        raise RegistryError(42202, f"The specified version '{given}' is not a valid version id")
    wanted = [schema for schema in found if schema.version == int(given)]
    if not wanted:
        raise RegistryError(40402, f"Version {given} not found.")
    return wanted[0]


async def _same(request: web.Request) -> Schema:
    """Return the version of the request's subject that is the schema in its body."""
    found = _versions(request)
    sought = _digest(await request.read())
    for schema in found:
        if digest(schema.parsed) == sought:
            return schema
    raise RegistryError(40403, "Schema not found")


def _digest(body: bytes) -> str:
    if len(body) > _LONGEST_SCHEMA:
        raise RegistryError(42201, f"the body is longer than {_LONGEST_SCHEMA} bytes")
    try:
        parsed: Any = parse_schema(orjson.loads(orjson.loads(body)["schema"]))
        return digest(parsed)
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        ArithmeticError,
        SchemaParseException,
        UnknownType,
        RecursionError,
    ) as error:
        raise RegistryError(42201, "Invalid Avro schema") from error


def _subjects(request: web.Request, schema: Schema | None = None) -> list[str]:
    state = request.app[STATE]
    of = None if schema is None else schema.name
    return subjects(state.topic_prefix, tuple(state.topology.topics), of)


def _version_json(request: web.Request, schema: Schema) -> dict[str, Any]:
    return {
        "subject": request.match_info["subject"],
        "id": schema.id,
        "version": schema.version,
        "schema": schema.text,
    }


def _text(schema: Schema) -> web.Response:
    return web.Response(text=schema.text, content_type=_CONTENT_TYPE)


def _answer(value: object, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, content_type=_CONTENT_TYPE)

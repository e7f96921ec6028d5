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

from streams.access.permissions import READ
from streams.api.schemas.registry import (
    CONTENT_TYPE,
    Registry,
    RegistryError,
    no_subject,
    part_of,
    schema_by_id,
)
from streams.api.serving.call import SHARED, Calls, state_of
from streams.serde.schemas import Schema

calls = Calls()

ROOTS = ("/schemas/", "/subjects", "/associations/", "/config", "/mode")
"""What the paths of all calls begin with."""

_ALL_CONTEXTS = ":*:"
"""The prefix by which clients ask for the subjects of all contexts; here there is one."""
_ID, _SUBJECT = "/schemas/ids/{id}", "/subjects/{subject}"
_VERSION = _SUBJECT + "/versions/{version}"


@calls.get("/schemas/types", of=SHARED, needs=READ)
async def types(_: web.Request) -> web.Response:
    """List the kinds of schemas."""
    return _answer(["AVRO"])


@calls.get(_ID, of=SHARED, needs=READ)
async def schema_of_id(request: web.Request) -> web.Response:
    """Show a schema, as a text within JSON."""
    return _answer({"schema": _schema(request).text})


@calls.get(_ID + "/schema", of=SHARED, needs=READ)
async def text_of_id(request: web.Request) -> web.Response:
    """Show a schema itself."""
    return _text(_schema(request))


@calls.get(_ID + "/subjects", of=SHARED, needs=READ)
async def subjects_of_id(request: web.Request) -> web.Response:
    """List the subjects that have a schema."""
    return _page(request, _registry(request).subjects(_schema(request)))


@calls.get(_ID + "/versions", of=SHARED, needs=READ)
async def versions_of_id(request: web.Request) -> web.Response:
    """List the versions that a schema is, by subject."""
    found = _schema(request)
    names = _registry(request).subjects(found)
    return _page(request, [{"subject": name, "version": found.version} for name in names])


@calls.get("/subjects", of=SHARED, needs=READ)
async def all_subjects(request: web.Request) -> web.Response:
    """List all subjects, or those that begin with `subjectPrefix`."""
    begin = request.query.get("subjectPrefix", "").removeprefix(_ALL_CONTEXTS)
    found = [] if _says(request, "deletedOnly") else _registry(request).subjects()
    return _page(request, [name for name in found if name.startswith(begin)])


@calls.post(_SUBJECT, of=SHARED, needs=READ, verb="")
async def look_up(request: web.Request) -> web.Response:
    """Show the version of a subject that a schema is."""
    subject, body = request.match_info["subject"], await request.read()
    return _answer(_version_json(request, _registry(request).same(subject, body)))


@calls.get(_SUBJECT + "/versions", of=SHARED, needs=READ)
async def versions_of_subject(request: web.Request) -> web.Response:
    """List the versions of a subject."""
    subject = request.match_info["subject"]
    found = _registry(request).versions(subject)
    if _says(request, "deletedOnly"):
        raise no_subject(subject)  # nothing is ever deleted
    return _page(request, [schema.version for schema in found])


@calls.post(_SUBJECT + "/versions", of=SHARED, needs=READ, verb="")
async def register(request: web.Request) -> web.Response:
    """Tell the id of a schema that is there already; serializers ask this before they write."""
    subject, body = request.match_info["subject"], await request.read()
    return _answer({"id": _registry(request).registered(subject, body).id})


@calls.get(_VERSION, of=SHARED, needs=READ)
async def version(request: web.Request) -> web.Response:
    """Show a version of a subject."""
    return _answer(_version_json(request, _version(request)))


@calls.get(_VERSION + "/schema", of=SHARED, needs=READ)
async def text_of_version(request: web.Request) -> web.Response:
    """Show the schema itself."""
    return _text(_version(request))


def _of_registry(told: dict[str, str]) -> Handler:
    """Return the handler of what is the same of the whole registry and of each subject.

    With `defaultToGlobal` it is told of any subject.
    """

    async def handle(request: web.Request) -> web.Response:
        """Tell what is the same of the whole registry and of each subject."""
        if "subject" in request.match_info and not _says(request, "defaultToGlobal"):
            _registry(request).versions(request.match_info["subject"])
        return _answer(told)

    return handle


for _path, _told in (
    ("/config", {"compatibilityLevel": "BACKWARD_TRANSITIVE"}),  # a reader reads all older versions
    ("/mode", {"mode": "READONLY"}),  # nothing can be registered
):
    calls.get(_path, of=SHARED, needs=READ)(_of_registry(_told))
    calls.get(_path + "/{subject}", of=SHARED, needs=READ)(_of_registry(_told))


@calls.get("/associations/{rest:(?s:.*)}", of=SHARED, needs=READ)
async def associations(_: web.Request) -> web.Response:
    """Tell newer clients, which ask this first, that a subject follows from the topic's name."""
    raise RegistryError(40401, "this registry has no associations")


def _registry(request: web.Request) -> Registry:
    state = state_of(request)
    return Registry(state.topic_prefix, tuple(state.topology.topics))


def _schema(request: web.Request) -> Schema:
    return schema_by_id(request.match_info["id"])


def _version(request: web.Request) -> Schema:
    return _registry(request).version(request.match_info["subject"], request.match_info["version"])


def _says(request: web.Request, name: str) -> bool:
    return request.query.get(name, "").lower() == "true"


def _page(request: web.Request, found: Sequence[object]) -> web.Response:
    query = request.query
    return _answer(part_of(found, query.get("offset", "0"), query.get("limit", "-1")))


def _version_json(request: web.Request, schema: Schema) -> dict[str, Any]:
    return {
        "subject": request.match_info["subject"],
        "id": schema.id,
        "version": schema.version,
        "schema": schema.text,
    }


def _text(schema: Schema) -> web.Response:
    return web.Response(text=schema.text, content_type=CONTENT_TYPE)


def _answer(value: object) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type=CONTENT_TYPE)

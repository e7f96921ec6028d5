"""The read-only registry, asked by confluent-kafka's own client over real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext
from support.callers import access_of
from support.dispatching import envelope
from support.schema_versions import LATER, another_version

from streams.api.serving.access import authenticated
from streams.api.serving.middlewares import caught_up, problems
from streams.api.serving.routes import routes
from streams.api.serving.state import STATE
from streams.serde import schemas
from streams.serde.codec import ENVELOPE
from streams.topology.load import load

T = TypeVar("T")
FIRST = schemas.current("envelope").id
"""The first version of the schema of events."""


async def serve(*, open_schemas: bool) -> AsyncIterator[str]:
    """The operator's API while its read model is not ready, under the topic prefix `dev.`."""
    guards = [
        problems,
        authenticated(access_of("right", open_schemas=open_schemas)),
        caught_up,
    ]
    app = web.Application(middlewares=guards)
    state = SimpleNamespace(topology=load(), topic_prefix="dev.")
    state.asked_by = lambda *_: state
    app[STATE] = state  # type: ignore[misc]
    app.add_routes(routes())
    async with TestServer(app) as server:
        yield str(server.make_url(""))


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async for url in serve(open_schemas=True):
        yield url


@pytest.fixture
def two_versions(tmp_path: Path) -> Iterator[None]:
    with another_version("envelope", tmp_path, LATER):
        yield


async def asked(url: str, ask: Callable[[SchemaRegistryClient], T]) -> T:
    """What a call of the client answers; the client blocks, so it has a thread."""
    with SchemaRegistryClient({"url": url, "max.retries": 0}) as client:
        return await asyncio.to_thread(ask, client)


async def refused(url: str, ask: Callable[[SchemaRegistryClient], object]) -> tuple[int, int]:
    """The status and the code of a call that is refused."""
    with pytest.raises(SchemaRegistryError) as caught:
        await asked(url, ask)
    return caught.value.http_status_code, caught.value.error_code


async def test_the_client_reads_a_record_by_the_id_that_it_begins_with(url: str) -> None:
    event = envelope("acme", "k1", "order.paid")
    context = SerializationContext("dev.events", MessageField.VALUE)
    found: Any = await asked(url, lambda c: AvroDeserializer(c)(ENVELOPE.encode(event), context))
    assert (found["event_id"], found["tenant_id"]) == (event.event_id, "acme")
    assert found["fingerprint"] == event.fingerprint


@pytest.mark.usefixtures("two_versions")
async def test_subjects_are_topics_and_versions_those_of_the_lock(url: str) -> None:
    subjects = await asked(url, lambda c: c.get_subjects())
    assert {"dev.events-value", "dev.events.received-value", "dev.jobs-value"} < set(subjects)
    assert not [s for s in subjects if "changelog" in s or "payloads" in s]
    assert await asked(url, lambda c: c.get_versions("dev.events-value")) == [1, 2]
    latest = await asked(url, lambda c: c.get_latest_version("dev.events-value"))
    assert latest.schema_id == schemas.current("envelope").id
    first = await asked(url, lambda c: c.get_version("dev.events-value", 1))
    assert (first.version, first.schema_id) == (1, FIRST)
    of = await asked(url, lambda c: c.get_subjects_by_schema_id(FIRST))
    assert of == ["dev.events-value", "dev.events.received-value"]


async def test_a_schema_that_is_there_is_found_and_no_other_can_be_registered(url: str) -> None:
    job = schemas.current("job")
    spaced = json.dumps(json.loads(job.text), indent=2)  # the text may differ, not the schema
    found = await asked(url, lambda c: c.lookup_schema("dev.jobs-value", Schema(spaced, "AVRO")))
    assert (found.schema_id, found.version) == (job.id, job.version)
    known = await asked(
        url, lambda c: c.register_schema("dev.jobs-value", Schema(job.text, "AVRO"))
    )
    assert known == job.id
    other = Schema('{"type": "record", "name": "Mine", "fields": []}', "AVRO")
    assert await refused(url, lambda c: c.lookup_schema("dev.jobs-value", other)) == (404, 40403)
    assert await refused(url, lambda c: c.register_schema("dev.jobs-value", other)) == (422, 42205)
    huge = '{"type":"fixed","name":"a","size":1e308,"logicalType":"decimal","precision":4}'
    for text in ('{"type": "recor', huge):
        broken = Schema(text, "AVRO")
        ask = partial(
            SchemaRegistryClient.lookup_schema, subject_name="dev.jobs-value", schema=broken
        )
        assert await refused(url, ask) == (422, 42201)


async def test_what_is_not_there_is_refused_with_the_codes_of_a_registry(url: str) -> None:
    events = "dev.events-value"
    assert await refused(url, lambda c: c.get_schema(9_999)) == (404, 40403)
    assert await refused(url, lambda c: c.get_versions("events-value")) == (404, 40401)
    assert await refused(url, lambda c: c.get_version(events, 99)) == (404, 40402)
    assert await refused(url, lambda c: c.get_latest_version("nothing")) == (404, 40401)
    async with ClientSession(url) as client:
        async with client.get(f"/subjects/{events}/versions/0") as answer:
            assert (answer.status, (await answer.json(content_type=None))["error_code"]) == (
                422,
                42202,
            )
        async with client.post(f"/subjects/{events}", data=b"[" * 100_000) as answer:
            assert answer.status == 422
        async with client.post(f"/subjects/{events}", json={"schema": "[" * 900}) as answer:
            assert answer.status == 422


async def test_the_rest_says_what_the_registry_is(url: str) -> None:
    assert await asked(url, lambda c: c.get_compatibility()) == "BACKWARD_TRANSITIVE"
    async with ClientSession(url) as client:
        for path, told in (
            ("/mode", {"mode": "READONLY"}),
            ("/mode/dev.jobs-value", {"mode": "READONLY"}),
            ("/config/dev.jobs-value", {"compatibilityLevel": "BACKWARD_TRANSITIVE"}),
            ("/schemas/types", ["AVRO"]),
            (
                f"/schemas/ids/{FIRST}/versions",
                [
                    {"subject": "dev.events-value", "version": 1},
                    {"subject": "dev.events.received-value", "version": 1},
                ],
            ),
            ("/subjects?subjectPrefix=dev.deliveries.a", ["dev.deliveries.attempts-value"]),
        ):
            async with client.get(path) as answer:
                assert answer.content_type == "application/vnd.schemaregistry.v1+json"
                assert await answer.json(content_type=None) == told, path
        async with client.get(f"/schemas/ids/{FIRST}/schema") as answer:
            assert (await answer.json(content_type=None))["name"] == "Envelope"


@pytest.mark.usefixtures("two_versions")
async def test_lists_are_paged_and_nothing_was_deleted(url: str) -> None:
    """A client that reads page by page stops at an empty one."""
    every = await asked(url, lambda c: c.get_subjects())
    second = await asked(url, lambda c: c.get_subjects(offset=5, limit=5))
    assert second == every[5:10]
    assert await asked(url, lambda c: c.get_subjects(offset=len(every), limit=5)) == []
    assert await asked(url, lambda c: c.get_subjects(subject_prefix=":*:")) == every
    versions = await asked(url, lambda c: c.get_versions("dev.events-value", offset=1, limit=1))
    assert versions == [2]
    async with ClientSession(url) as client:
        for path, status, told in (
            ("/subjects?deletedOnly=true", 200, []),
            (f"/schemas/ids/{FIRST}/subjects?limit=1", 200, ["dev.events-value"]),
            (
                "/config/mine?defaultToGlobal=true",
                200,
                {"compatibilityLevel": "BACKWARD_TRANSITIVE"},
            ),
            ("/mode/mine?defaultToGlobal=true", 200, {"mode": "READONLY"}),
        ):
            async with client.get(path) as answer:
                assert (answer.status, await answer.json(content_type=None)) == (status, told), path
        for path, status in (
            ("/subjects/dev.jobs-value/versions?deletedOnly=true", 404),
            ("/mode/mine", 404),
            ("/subjects?offset=x", 404),
        ):
            async with client.get(path) as answer:
                assert answer.status == status, path


async def test_schemas_need_the_token_if_it_is_set_so_and_the_rest_always() -> None:
    async for url in serve(open_schemas=False):
        assert (await refused(url, lambda c: c.get_subjects()))[0] == 401
    async for url in serve(open_schemas=True):
        async with ClientSession(url) as client, client.get("/v1/jobs") as answer:
            assert answer.status == 401

"""Bodies that nobody reads fill no memory, and keep no other tenant from theirs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.typedefs import Handler
from support.conditions import PATIENCE_SECONDS
from support.operator_cluster import make_job
from support.operator_desk import OperatorDesk
from support.sealed_artifact import sealed

from streams.access.principal import BOOTSTRAP
from streams.api.read_model.database import Database
from streams.api.serving import attachment
from streams.api.serving.call import PRINCIPAL, STANDS
from streams.api.serving.middlewares import problems
from streams.api.serving.routes import routes
from streams.api.serving.state import STATE
from streams.artifacts.reference import Reference, path_of
from streams.process.shared_room import SharedRoom
from streams.serde.codec import JOB
from streams.testing.memory_store import MemoryStore
from streams.vault.key_encryption import local_vault
from streams.vault.keyring import DataKeyring

CONTENT = b"x" * 16_000_000
TENANTS = ("acme", "globex")
ROOM_BYTES = 256 * 1024 * 1024


class Store(MemoryStore):
    """A store that counts how often it is asked for a whole object."""

    blocks = True
    read = 0

    def get(self, path: str, most: int | None = None) -> bytes:
        self.read += 1
        return super().get(path, most)


class Desk(OperatorDesk):
    """A read model with a job of each tenant, which has saved a large file."""

    def __init__(self, rows: Any) -> None:
        super().__init__(rows)
        self.artifacts, self.keyring = Store(), DataKeyring(local_vault(b"v" * 32))
        for tenant_id in TENANTS:
            self.project([("jobs", b"", JOB.encode(make_job(f"job_{tenant_id}", tenant_id)))])
            reference = Reference("art", f"job_{tenant_id}", "n", len(CONTENT), "t")
            parts = sealed(self.keyring, tenant_id, reference, CONTENT)
            self.artifacts.put(path_of(tenant_id, f"job_{tenant_id}", "art"), parts)


@web.middleware
async def of_a_tenant(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Each caller says whose it is."""
    tenant_id = request.headers["Tenant"]
    request[PRINCIPAL] = replace(BOOTSTRAP, id=tenant_id, tenants=frozenset({tenant_id}))
    request[STANDS] = lambda: True
    return await handler(request)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with closing(Database(tmp_path / "m.sqlite").open_writer()) as rows:
        yield Desk(rows)


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> SharedRoom:
    """The room of one operator: a test may leave some of it taken."""
    found = SharedRoom(ROOM_BYTES, 3)
    monkeypatch.setattr(attachment, "_ROOM", found)
    return found


@asynccontextmanager
async def serving(desk: Desk) -> AsyncIterator[TestClient[Any, Any]]:
    app = web.Application(middlewares=[problems, of_a_tenant])
    app[STATE] = desk  # type: ignore[misc]
    app.add_routes(routes())
    async with TestClient(TestServer(app)) as client:
        yield client


class Unread(NamedTuple):
    """A connection that has to be kept, or it is closed."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def unread(client: Any, tenant_id: str) -> Unread:
    """Ask for the file of a tenant, and read nothing for now."""
    reader, writer = await asyncio.open_connection(
        client.server.host, client.server.port, limit=1024
    )
    path = f"/v1/jobs/job_{tenant_id}/artifacts/art"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nTenant: {tenant_id}\r\n\r\n".encode())
    return Unread(reader, writer)


async def content(client: Any, tenant_id: str) -> tuple[int, bytes]:
    path = f"/v1/jobs/job_{tenant_id}/artifacts/art"
    async with client.get(path, headers={"Tenant": tenant_id}) as answer:
        return answer.status, await answer.read()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


async def test_files_that_nobody_reads_are_few_and_another_tenant_gets_its_own(desk: Desk) -> None:
    async with serving(desk) as client, asyncio.timeout(PATIENCE_SECONDS):
        kept = [await unread(client, "acme") for _ in range(40)]
        await until(lambda: desk.artifacts.read >= 3)
        assert await content(client, "globex") == (200, CONTENT)
        for each in kept:
            each.writer.transport.abort()
        assert desk.artifacts.read < 20


async def test_whoever_waits_in_vain_for_room_is_told(
    desk: Desk, room: SharedRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachment, "ROOM_SECONDS", 0.01)
    await room.enter("another", ROOM_BYTES - 1)
    async with serving(desk) as client:
        status, told = await content(client, "globex")
    assert (status, b"too-many-bodies" in told) == (503, True)
    assert desk.artifacts.read == 0


async def test_who_reads_too_slowly_is_cut_off_and_gives_the_room_back(
    desk: Desk, room: SharedRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(desk) as client, asyncio.timeout(PATIENCE_SECONDS):
        with monkeypatch.context() as patched:
            patched.setattr(attachment, "LEAST_SECONDS", 0.05)
            patched.setattr(attachment, "LEAST_A_SECOND", 1e12)
            kept = await unread(client, "acme")
            await until(lambda: desk.artifacts.read == 1)
            await until(lambda: room.try_enter("another", ROOM_BYTES))
        room.leave("another", ROOM_BYTES)
        with suppress(ConnectionError):
            assert len(await kept.reader.read()) < len(CONTENT)
        assert await content(client, "acme") == (200, CONTENT)


async def test_a_look_at_the_head_alone_gets_no_body(desk: Desk) -> None:
    async with serving(desk) as client:
        path = "/v1/jobs/job_acme/artifacts/art"
        async with client.head(path, headers={"Tenant": "acme"}) as answer:
            assert answer.headers["Content-Length"] == str(len(CONTENT))
            assert answer.headers["Content-Type"] == "application/octet-stream"
            assert await answer.read() == b""

"""A change of a source goes by what was written last, whatever the read model shows."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from support.callers import AskedByAnybody, as_operator
from support.webhooks import VAULT, source, tenant

from streams.api.operator_state import AppState, not_shown
from streams.api.refusal import Refusal
from streams.api.serving.middlewares import problems
from streams.api.serving.state import STATE
from streams.api.sources import http as api_sources
from streams.api.vault.rewrap import rewrap
from streams.kafka.fenced_write import OutgoingRecord
from streams.process.wall_clock import wall_ms
from streams.serde.codec import TENANT
from streams.serde.records import TenantRecord
from streams.tenants.source_keys import open_secret
from streams.topology.load import load
from streams.vault.key_encryption import local_vault

SHOP = ("acme", "source", "shop")
PATH = "/v1/tenants/acme/sources/shop"


class Stalled(AskedByAnybody):
    """Parts whose read model stands still, and the topic behind them."""

    home, newest, drop_shown = AppState.home, AppState.newest, AppState.drop_shown

    def __init__(self) -> None:
        self.vault, self.tenant_writes, self.topology = VAULT, asyncio.Lock(), load()
        self.unshown: dict[tuple[str, str, str], tuple[int, TenantRecord]] = {}
        self.written = self.shown = 0
        self.follower = SimpleNamespace(folded=lambda place: self.shown)
        self.topic: dict[tuple[str, str, str], TenantRecord] = {}
        self.read_model = sqlite3.connect(":memory:")
        self.read_model.execute("CREATE TABLE tenants (tenant_id, kind, id, record)")
        for _, value in (tenant("acme"), source("acme", "shop", "github", [b"leaked"])):
            record = TENANT.decode(value)
            row = (record.tenant_id, record.kind, record.id, value)
            self.read_model.execute("INSERT INTO tenants VALUES (?, ?, ?, ?)", row)

    async def query(self, query: Callable[[sqlite3.Connection], Any]) -> Any:
        return query(self.read_model)

    async def wait_for(self, row: Any, query: Callable[[sqlite3.Connection], Any]) -> Any:
        return query(self.read_model)

    async def wait_until(self, row: Any, condition: Callable[[sqlite3.Connection], bool]) -> None:
        if not condition(self.read_model):
            raise not_shown()

    async def set_tenant(
        self, key: tuple[str, str, str], record: TenantRecord, entry: Any = None
    ) -> int:
        self.topic[key] = record
        self.written += 1
        return self.written - 1

    async def audited(self, _: Any, *records: OutgoingRecord) -> list[int]:
        found = [TENANT.decode(each.value) for each in records]
        return [await self.set_tenant((r.tenant_id, r.kind, r.id), r) for r in found]

    def catch_up(self) -> None:
        self.shown = self.written

    def secrets(self) -> list[bytes]:
        record = self.topic[SHOP]
        return [open_secret(self.vault, record, key.sealed or b"") for key in record.keys]


@pytest.fixture
def stalled() -> Stalled:
    return Stalled()


@pytest.fixture
async def api(stalled: Stalled) -> AsyncIterator[TestClient[Any, Any]]:
    app = web.Application(middlewares=[problems, as_operator])
    app[STATE] = stalled  # type: ignore[misc]
    app.add_routes(api_sources.calls)
    async with TestClient(TestServer(app)) as client:
        yield client


async def test_a_rotation_does_not_bring_back_what_a_put_has_ended(
    stalled: Stalled, api: TestClient[Any, Any]
) -> None:
    put = await api.put(PATH, json={"scheme": "github", "secret": "new"})
    assert (put.status, (await put.json())["type"]) == (503, "urn:tidegate:problem:not-shown")
    assert stalled.secrets() == [b"new"]
    await api.post(f"{PATH}/rotate", json={"secret": "newer", "overlap_seconds": 60})
    assert stalled.secrets() == [b"newer", b"new"]
    await api.put(PATH, json={"scheme": "github", "mapping": {"subject": "name"}})
    assert stalled.secrets() == [b"newer", b"new"]


async def test_a_rewrapping_does_not_bring_back_what_a_put_has_ended(
    stalled: Stalled, api: TestClient[Any, Any]
) -> None:
    await api.put(PATH, json={"scheme": "github", "secret": "new"})
    stalled.vault = local_vault(b"n" * 32, b"k" * 32)
    with pytest.raises(Refusal, match="the read model does not show it"):
        await rewrap(cast(AppState, stalled))
    assert stalled.secrets() == [b"new"]
    assert stalled.topic[SHOP].keys[0].sealed != stalled.unshown[SHOP][1].keys[0].sealed


async def test_what_another_wrote_later_is_what_holds(
    stalled: Stalled, api: TestClient[Any, Any]
) -> None:
    await api.put(PATH, json={"scheme": "github", "secret": "new"})
    another = TENANT.decode(source("acme", "shop", "github", [b"another"])[1])
    later = replace(another, updated_at=stalled.topic[SHOP].updated_at + 1)
    stalled.read_model.execute(
        "UPDATE tenants SET record = ? WHERE kind = 'source'", (TENANT.encode(later),)
    )
    await api.post(f"{PATH}/rotate", json={"secret": "newer", "overlap_seconds": 60})
    assert stalled.secrets() == [b"newer", b"another"]


async def test_what_was_removed_since_does_not_come_back_once_the_read_model_has_caught_up(
    stalled: Stalled, api: TestClient[Any, Any]
) -> None:
    """An erasure, or another process, may have deleted what this process wrote too early to see."""
    assert (await api.put(PATH, json={"scheme": "github", "secret": "new"})).status == 503
    assert (await api.get(PATH)).status == 200
    stalled.read_model.execute("DELETE FROM tenants WHERE kind = 'source'")
    stalled.catch_up()
    assert (await api.get(PATH)).status == 404
    rotated = await api.post(f"{PATH}/rotate", json={"secret": "newer", "overlap_seconds": 60})
    assert rotated.status == 404
    assert stalled.secrets() == [b"new"]


async def test_a_clock_that_was_set_back_brings_nothing_back(
    stalled: Stalled, api: TestClient[Any, Any]
) -> None:
    leaked = TENANT.decode(source("acme", "shop", "github", [b"leaked"])[1])
    ahead = replace(leaked, updated_at=wall_ms() + 3_600_000)
    stalled.read_model.execute(
        "UPDATE tenants SET record = ? WHERE kind = 'source'", (TENANT.encode(ahead),)
    )
    put = await api.put(PATH, json={"scheme": "github", "secret": "new"})
    assert put.status == 503, "the read model still shows what was before"
    await api.post(f"{PATH}/rotate", json={"secret": "newer", "overlap_seconds": 60})
    assert stalled.secrets() == [b"newer", b"new"]
    stalled.vault = local_vault(b"n" * 32, b"k" * 32)
    with pytest.raises(Refusal, match="the read model does not show it"):
        await rewrap(cast(AppState, stalled))

"""The operator's API over the dispatcher itself, in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from streams.api.operator_state import AppState
from streams.api.read_model.database import Database
from streams.api.read_model.projections import Changes, project
from streams.api.serving.middlewares import problems
from streams.api.serving.routes import routes
from streams.api.serving.state import STATE
from streams.serde.records import CommandBody
from streams.vault.key_encryption import local_vault
from support.callers import AskedByAnybody, as_operator
from support.dispatching import Desk

VAULT = local_vault(b"v" * 32)


_TOPICS = (
    "jobs",
    "jobs.backlog",
    "jobs.types",
    "limits.grants",
    "ledger",
    "dispatcher.checkpoints.changelog",
    "approvals",
    "schedules",
    "workflows",
    "dlq",
    "tenants",
    "audit",
)


class Office(AskedByAnybody):
    """What the API needs of the operator: commands reach the dispatcher, rows are what it wrote."""

    home = AppState.home

    def __init__(self, desk: Desk, rows: sqlite3.Connection) -> None:
        self.desk, self.rows, self.topology = desk, rows, desk.topology
        self.vault = VAULT

    async def command(self, tenant_id: str, job_id: str, body: CommandBody) -> str:
        id_ = self.new_command_id()
        return self.desk.command(body, job_id, tenant=tenant_id, call=self.call, command_id=id_)

    async def query(self, look: Callable[[sqlite3.Connection], Any]) -> Any:
        batch: dict[str, Changes] = {}
        for topic in _TOPICS:
            for record in self.desk.driver.output(topic):
                project(record, batch)
        for changes in batch.values():
            changes.write(self.rows)
        return look(self.rows)

    async def wait_for(self, row: Any, look: Callable[[sqlite3.Connection], Any], *_: Any) -> Any:
        return await self.query(look)

    async def read_barrier(self, *_: Any) -> None:
        """Every query folds first."""


@asynccontextmanager
async def office(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[TestClient[Any, Any]]:
    rows = Database(tmp_path / "m.sqlite").open_writer()
    app = web.Application(middlewares=[problems, as_operator])
    app[STATE] = Office(desk, rows)  # type: ignore[misc]
    app.add_routes(routes())
    async with TestClient(TestServer(app)) as client:
        yield client
    rows.close()

"""These tests say who may see workers, and who may drain them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.access_desk import Api, serving
from support.folding import fold
from support.operator_cluster import make_job

ALL: frozenset[str] | None = None
DRAIN = {"scope": "worker", "value": "default-w1", "reason": "x"}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving(tmp_path) as made:
        for tenant in ("acme", "beta"):
            job_id, worker_id = f"job_{tenant}", f"default-{tenant}/b1"
            job = make_job(job_id, tenant, status="running", worker_id=worker_id)
            fold(made.desk.rows, job)
        yield made


@pytest.mark.parametrize(
    ("role", "tenants", "status"),
    [
        ("operator", ALL, 200),
        ("admin", ALL, 200),
        ("viewer", ALL, 403),
        ("approver", ALL, 403),
        ("worker", ALL, 403),
        ("operator", frozenset({"acme"}), 403),
    ],
)
async def test_only_those_who_operate_for_all_tenants_drain_a_worker(
    api: Api, role: str, tenants: frozenset[str] | None, status: int
) -> None:
    token = api.office.token(role, tenants)
    assert (await api.ask(token, "POST", "/v1/limits/pause", DRAIN))[0] == status


async def test_a_caller_of_a_tenant_sees_neither_workers_nor_drains_of_others(api: Api) -> None:
    everybody, acme = (api.office.token("operator", of) for of in (ALL, frozenset({"acme"})))
    await api.ask(everybody, "POST", "/v1/limits/pause", DRAIN | {"value": "default-beta"})
    _, found = await api.ask(acme, "GET", "/v1/workers")
    assert found["workers"] == [{"worker": "default-acme", "running": 1, "drained": None}]
    assert (await api.ask(acme, "GET", "/v1/limits"))[1]["pauses"] == []
    _, found = await api.ask(everybody, "GET", "/v1/workers")
    assert [each["worker"] for each in found["workers"]] == ["default-acme", "default-beta"]

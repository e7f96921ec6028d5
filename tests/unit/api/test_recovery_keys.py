"""A key of a recovery belongs to what it took, also once another recovery has followed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from support.operator_desk import OperatorDesk, client_of
from support.webhooks import tenant

from streams.api.read_model.database import Database
from streams.serde import ids
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import TenantRecord

PATH = "/v1/tenants/acme/endpoints/crm/recover"
SINCE = "2026-11-20T00:00:00Z"
TOOK = '{"since":1795132800000,"until":null,"statuses":["parked","dead"]}'


class Desk(OperatorDesk):
    """An endpoint, of whose recoveries its row shows none."""

    async def send_home(self, *_: Any) -> int:
        return 0


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    rows = Database(tmp_path / "m.sqlite").open_writer()
    found, key = Desk(rows), tenant_key("acme", "endpoint", "crm")
    endpoint = TenantRecord("acme", "endpoint", "crm", False, '{"url":"https://crm.example"}')
    found.project([("tenants", *tenant("acme")), ("tenants", key, TENANT.encode(endpoint))])
    yield found
    rows.close()


@pytest.fixture
async def api(desk: Desk) -> AsyncIterator[TestClient[Any, Any]]:
    async with client_of(desk) as client:
        yield client


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"since": SINCE}, 202),
        ({"since": "2026-11-19T00:00:00Z"}, 409),
        ({"since": SINCE, "until": "2026-11-21T00:00:00Z"}, 409),
        ({"since": SINCE, "status": "dead"}, 409),
    ],
)
async def test_a_key_of_another_recovery_is_refused(
    desk: Desk, api: TestClient[Any, Any], body: dict[str, Any], status: int
) -> None:
    desk.answer(ids.recovery_command_id("acme", "crm", "k1"), after=TOOK)
    answer = await api.post(PATH, json=body, headers={"Idempotency-Key": "k1"})
    told = await answer.json()
    assert answer.status == status, told
    if status == 409:
        assert told["type"].endswith("key-reused")
        assert SINCE.removesuffix("Z") in told["detail"]

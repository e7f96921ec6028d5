"""A token of one tenant names no secret by where it lies: those of all tenants lie there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.access_desk import BOOTSTRAP_TOKEN, serving

from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import TenantRecord

SOURCE, ENDPOINT = "/v1/tenants/acme/sources/shop", "/v1/tenants/acme/endpoints/crm"
ACME = TenantRecord("acme", "tenant", "", False, "{}")
CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("PUT", SOURCE, {"scheme": "github"}),
    ("POST", f"{SOURCE}/rotate", {}),
    ("PUT", ENDPOINT, {"events": ["job.*"], "url": "https://crm.example.com/"}),
    ("POST", f"{ENDPOINT}/rotate", {}),
]


@pytest.mark.parametrize(("method", "path", "body"), CALLS)
@pytest.mark.parametrize("where", ["env:TIDEGATE_ADMIN_TOKEN", "file:/run/secrets/beta"])
async def test_a_token_of_one_tenant_names_no_secret_of_the_hosts(
    tmp_path: Path, method: str, path: str, body: dict[str, Any], where: str
) -> None:
    async with serving(tmp_path) as api:
        api.desk.project([("tenants", tenant_key("acme", "tenant", ""), TENANT.encode(ACME))])
        given, own = body | {"secret_ref": where}, api.office.token("admin", frozenset({"acme"}))
        status, found = await api.ask(own, method, path, given)
        assert (status, found["type"]) == (403, "urn:tidegate:problem:every-tenant-needed"), found
        assert api.desk.tenant_records == []
        if path.startswith(SOURCE):
            status, found = await api.ask(BOOTSTRAP_TOKEN, method, path, given)
            assert status in (200, 404), found

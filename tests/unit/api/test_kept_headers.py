"""Whoever may not see secrets has the headers of an endpoint sent to no server but its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.access_desk import BOOTSTRAP_TOKEN, Api, serving

from streams.delivery.egress.policy import EgressPolicy
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import TenantRecord

PATH = "/v1/tenants/acme/endpoints/crm"
OURS, THEIRS = "https://93.184.216.34", "https://93.184.216.35"
ACME = TenantRecord("acme", "tenant", "", False, "{}")
CREDENTIAL = {"Authorization": "Bearer of-the-receiver"}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving(tmp_path) as made:
        made.desk.egress = EgressPolicy()  # type: ignore[attr-defined]
        made.desk.project([("tenants", tenant_key("acme", "tenant", ""), TENANT.encode(ACME))])
        body = {"url": f"{OURS}/hooks", "headers": CREDENTIAL}
        status, found = await made.ask(BOOTSTRAP_TOKEN, "PUT", PATH, body)
        assert (status, found["headers"]) == (200, ["Authorization"])
        yield made


KEPT: list[dict[str, Any]] = [{}, {"headers": {"Authorization": None}}]


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("url", [THEIRS, f"{OURS}:8443/hooks"])
async def test_kept_headers_go_to_another_server_for_whoever_may_see_secrets(
    api: Api, url: str, kept: dict[str, Any]
) -> None:
    tenants = frozenset({"acme"})
    configuring = api.office.token("custom", tenants, "read", "configure")
    trusted = api.office.token("custom", tenants, "read", "configure", "secrets")
    status, found = await api.ask(configuring, "PUT", PATH, {"url": url, **kept})
    assert (status, found["type"]) == (403, "urn:tidegate:problem:permission-missing")
    assert found["permission"] == "secrets"
    assert (await api.ask(configuring, "GET", PATH))[1]["url"] == f"{OURS}/hooks"
    assert (await api.ask(trusted, "PUT", PATH, {"url": url, **kept}))[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        {"url": f"{OURS}/other"},
        {"url": THEIRS, "headers": {}},
        {"url": THEIRS, "headers": {"Authorization": "Bearer of-another"}},
    ],
)
async def test_other_changes_take_configure_alone(api: Api, body: dict[str, Any]) -> None:
    configuring = api.office.token("custom", frozenset({"acme"}), "read", "configure")
    status, found = await api.ask(configuring, "PUT", PATH, body)
    assert (status, found["url"]) == (200, body["url"])


async def test_an_endpoint_without_headers_is_moved_by_whoever_configures(api: Api) -> None:
    configuring = api.office.token("custom", frozenset({"acme"}), "read", "configure")
    assert (await api.ask(configuring, "PUT", PATH, {"url": f"{OURS}/", "headers": {}}))[0] == 200
    assert (await api.ask(configuring, "PUT", PATH, {"url": THEIRS}))[0] == 200

"""`tidegate vault rewrap` goes on page by page; `tenants erase` asks before it destroys."""

from __future__ import annotations

from typing import Any

import pytest
from support.operator_api import OperatorApi, invoke
from typer.testing import CliRunner

from streams.api.tenants.cli import tenants
from streams.api.vault.cli import vault

REWRAP, ACME = "/v1/vault/rewrap", "/v1/tenants/acme"
ERASE = f"{ACME}/erase"
ERASED = {
    "tenant_id": "acme",
    "note": "case 4711",
    "erased_at": "2026-11-21T09:00:00.000Z",
    "data_keys": 2,
    "sources": 1,
    "endpoints": 0,
}


def page(cursor: str | None, **counts: Any) -> dict[str, Any]:
    nothing = {"data_keys": 0, "sources": 0, "endpoints": 0, "unchanged": 0, "unreadable": []}
    return {"key_id": "kek_1", **nothing, "next_cursor": cursor} | counts


def test_rewrap_sums_all_pages_and_says_how_far_it_is(operator: OperatorApi) -> None:
    lost = ["acme/source/shop"]
    pages = page("0.a", data_keys=150, unchanged=50), page(None, sources=3, unreadable=lost)
    operator.on("POST", REWRAP, *pages)
    done = invoke(operator, vault, "rewrap")
    assert operator.bodies("POST") == [{"limit": 200}, {"limit": 200, "cursor": "0.a"}]
    assert (done.exit_code, done.stderr) == (0, "looked at 200 secrets\n")
    assert "150 data keys, 3 sources, 0 endpoints; 50 were already" in done.stdout
    assert "no known key opens acme/source/shop" in done.stdout


def test_erase_needs_the_id_once_more(operator: OperatorApi) -> None:
    operator.on("GET", ACME, {"tenant_id": "acme"})
    operator.on("POST", ERASE, ERASED)
    asked = ("erase", "acme", "--note", "case 4711")
    refused = [invoke(operator, tenants, *asked, *more) for more in ((), ("--confirm", "Acme"))]
    assert [each.exit_code for each in refused] == [2, 1]
    assert operator.bodies("POST") == []
    done = invoke(operator, tenants, *asked, "--confirm", "acme")
    assert (done.exit_code, operator.bodies("POST")) == (0, [{"note": "case 4711"}])
    assert "2 data keys, 1 sources and 0 endpoints are destroyed" in done.stdout


@pytest.mark.parametrize(("typed", "code", "calls"), [("acme", 0, 1), ("acm", 1, 0)])
def test_erase_asks_a_person_for_the_id(
    operator: OperatorApi, monkeypatch: pytest.MonkeyPatch, typed: str, code: int, calls: int
) -> None:
    operator.on("GET", ACME, {"tenant_id": "acme"})
    operator.on("POST", ERASE, ERASED)
    monkeypatch.setattr("streams.api.tenants.cli.at_terminal", lambda: True)
    line = ["erase", "acme", "--note", "case 4711", "--url", operator.url]
    done = CliRunner().invoke(tenants, line, input=f"{typed}\n")
    assert (done.exit_code, len(operator.bodies("POST"))) == (code, calls)


def test_erase_of_an_unknown_tenant_asks_nothing(operator: OperatorApi) -> None:
    refused = invoke(operator, tenants, "erase", "acme", "--note", "x", "--confirm", "acme")
    assert (refused.exit_code, operator.bodies("POST")) == (1, [])

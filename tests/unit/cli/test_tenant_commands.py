"""`tidegate tenants` and `rejections` change what they are told and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.operator_api import OperatorApi, problem
from typer.testing import CliRunner, Result

from streams.api.rejections.cli import rejections
from streams.api.tenants.cli import tenants

PATH = "/v1/tenants/acme"
ACME = {
    "tenant_id": "acme",
    "display_name": "Acme",
    "rate": {"count": 600, "seconds": 60.0},
    "disabled": False,
    "erased_at": None,
    "sources": ["shop"],
    "updated_at": "2026-11-21T09:00:00.000Z",
}


def invoke(operator: OperatorApi, *arguments: str, group: Any = tenants) -> Result:
    return CliRunner().invoke(group, [*arguments, "--url", operator.url])


@pytest.mark.parametrize(
    ("flags", "sent"),
    [
        ([], {}),
        (["--display-name", "New"], {"display_name": "New"}),
        (["--rate", "10/1.5m"], {"rate": {"count": 10, "seconds": 90.0}}),
        (["--no-rate"], {"rate": None}),
        (["--weight", "2.5"], {"weight": 2.5}),
    ],
)
def test_set_keeps_what_it_is_not_told(
    operator: OperatorApi, flags: list[str], sent: dict[str, Any]
) -> None:
    operator.on("GET", PATH, ACME)
    operator.on("PUT", PATH, ACME | sent)
    done = invoke(operator, "set", "acme", *flags, "--json")
    kept = {"display_name": "Acme", "rate": ACME["rate"]}
    assert operator.bodies("PUT") == [kept | sent]
    assert json.loads(done.stdout) == ACME | sent
    assert all(f"changed tenant acme: {name}: " in done.stderr for name in sent)
    assert ("has these settings already" in done.stderr) == (not sent)


def test_set_creates_a_tenant_that_is_not_there_and_enables_a_disabled_one(
    operator: OperatorApi,
) -> None:
    operator.on("PUT", PATH, ACME)
    created = invoke(operator, "set", "acme", "--rate", "600/60s")
    assert operator.bodies("PUT") == [{"rate": {"count": 600, "seconds": 60.0}}]
    assert (created.exit_code, created.stderr) == (0, "created tenant acme\n")
    assert "600/60s" in created.stdout
    operator.on("GET", PATH, ACME | {"disabled": True})
    assert invoke(operator, "set", "acme").stderr == "enabled tenant acme\n"


def test_set_changes_what_it_has_read_and_nothing_newer(operator: OperatorApi) -> None:
    operator.on("PUT", PATH, ACME)
    invoke(operator, "set", "acme")
    operator.on("GET", PATH, ACME)
    operator.etag = '"1f0c"'
    invoke(operator, "set", "acme")
    asked = [each.headers for each in operator.asked if each.method == "PUT"]
    names = ("If-None-Match", "If-Match")
    assert [[h.get(n) for n in names] for h in asked] == [["*", None], [None, '"1f0c"']]


def test_set_does_not_overwrite_what_it_could_not_read(operator: OperatorApi) -> None:
    operator.on("GET", PATH, problem(503, "not-ready"))
    refused = invoke(operator, "set", "acme", "--display-name", "New")
    assert (refused.exit_code, operator.bodies("PUT")) == (1, [])
    assert refused.stderr == "error: told by the API\n"


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--rate", "600"], "as 600/60s"),
        (["--rate", "600/minute"], "as 20s, 15m, 24h or 7d"),
        (["--rate", "6/1s", "--no-rate"], "not both"),
    ],
)
def test_a_wrong_rate_asks_nothing(operator: OperatorApi, flags: list[str], told: str) -> None:
    refused = invoke(operator, "set", "acme", *flags)
    assert (refused.exit_code, operator.asked) == (2, [])
    assert told in " ".join(refused.stderr.replace("│", " ").split())


def test_tenants_are_listed_shown_and_disabled(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/tenants", {"tenants": [ACME], "next_cursor": "abc"})
    operator.on("GET", PATH, ACME)
    operator.on("DELETE", PATH, ACME | {"disabled": True})
    listed = invoke(operator, "list", "--limit", "5").stdout
    assert "600/60s" in listed
    assert "more: --cursor abc" in listed
    assert "Acme" in invoke(operator, "show", "acme").stdout
    said = "tenant acme is disabled: its deliveries and submissions are refused\n"
    assert invoke(operator, "disable", "acme").stdout == said
    assert [(each.method, each.path) for each in operator.asked] == [
        ("GET", "/v1/tenants?limit=5"),
        ("GET", PATH),
        ("DELETE", PATH),
    ]


def test_rejections_are_listed(operator: OperatorApi) -> None:
    refused = {
        "id": "r",
        "tenant_id": "acme",
        "source": "shop",
        "reason": "unauthorized",
        "count": 7,
        "first_at": "2026-11-21T09:00:00.000Z",
        "last_at": "2026-11-21T09:00:05.000Z",
    }
    operator.on("GET", "/v1/rejections", {"rejections": [refused], "next_cursor": None})
    listed = invoke(operator, "list", "--tenant", "acme", group=rejections)
    assert "unauthorized" in listed.stdout
    assert operator.asked[0].path == "/v1/rejections?tenant_id=acme&limit=50"

"""`tidegate endpoints`: settings are merged, and a secret is never in a flag nor shown twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from support.operator_api import OperatorApi
from typer.testing import CliRunner, Result

from streams.api.endpoints.cli import endpoints
from streams.cli import operator_command
from streams.cli.api_client import call
from streams.tenants.endpoints import LONGEST_TIMEOUT_SECONDS

PATH = "/v1/tenants/acme/endpoints/crm"
SETTINGS: dict[str, Any] = {
    "url": "https://crm.example/hooks",
    "events": ["order.*"],
    "sources": ["*"],
    "enabled": True,
    "rate": None,
    "ordering": "parallel",
    "timeout_seconds": 15.0,
    "retry": [5.0, 300.0],
    "format": "mapped",
    "mapping": "data.id",
    "description": "",
}
CRM: dict[str, Any] = {
    "tenant_id": "acme",
    "endpoint_id": "crm",
    **SETTINGS,
    "headers": ["Authorization", "X-Team"],
    "keys": [{"kind": "v1", "secret_ref": None, "public_key": None, "until": None}],
    "state": {
        "circuit": "open",
        "open_until": "2026-11-21T09:00:00.000Z",
        "failing_since": "2026-11-21T08:00:00.000Z",
        "disabled_because": None,
        "disabled_at": None,
        "recovery": None,
    },
    "created_at": "2026-11-21T07:00:00.000Z",
    "updated_at": "2026-11-21T07:00:00.000Z",
}
MADE = "whsec_c2hvd24gb25jZQ=="


@pytest.fixture
def crm(operator: OperatorApi) -> OperatorApi:
    """The API with tenant acme and its endpoint crm."""
    operator.on("GET", "/v1/tenants/acme", {"tenant_id": "acme"})
    operator.on("GET", PATH, CRM)
    operator.on("PUT", PATH, CRM)
    return operator


def invoke(operator: OperatorApi, *arguments: str, typed: str | bytes = "") -> Result:
    whole = [arguments[0], "crm", "--tenant", "acme", *arguments[1:], "--url", operator.url]
    return CliRunner().invoke(endpoints, whole, input=typed)


def told(result: Result) -> str:
    return " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("flags", "changed"),
    [
        ([], {}),
        (
            ["--to", "https://new.example/", "--timeout", "5s"],
            {"url": "https://new.example/", "timeout_seconds": 5.0},
        ),
        (
            ["--events", "a.*", "--events", "job.dead", "--sources", "shop"],
            {"events": ["a.*", "job.dead"], "sources": ["shop"]},
        ),
        (["--retry", "5s, 2m"], {"retry": [5.0, 120.0]}),
        (["--retry", ""], {"retry": []}),
        (["--rate", "600/60s"], {"rate": {"count": 600, "seconds": 60.0}}),
        (["--no-rate", "--disable"], {"rate": None, "enabled": False}),
        (["--format", "raw"], {"format": "raw", "mapping": None}),
        (["--format", "mapped", "--mapping", "id"], {"mapping": "id"}),
        (
            ["--header", "X-New=n", "--header", "X-Team="],
            {"headers": {"Authorization": None, "X-New": "n"}},
        ),
    ],
)
def test_set_keeps_what_it_is_not_told(
    crm: OperatorApi, flags: list[str], changed: dict[str, Any]
) -> None:
    done = invoke(crm, "set", *flags)
    assert (done.exit_code, crm.bodies("PUT")) == (0, [SETTINGS | changed])


def test_a_new_endpoint_shows_the_secret_that_was_made_for_it_once(crm: OperatorApi) -> None:
    crm.on("GET", PATH, (404, {"type": "urn:tidegate:problem:endpoint-unknown", "detail": "no"}))
    crm.on("PUT", PATH, CRM | {"secret": MADE})
    done = invoke(crm, "set", "--to", "https://crm.example/hooks")
    assert crm.bodies("PUT") == [{"url": "https://crm.example/hooks"}]
    assert (done.stdout.count(MADE), MADE in done.stderr) == (1, False)
    assert "created endpoint crm of tenant acme" in done.stderr
    whole = invoke(crm, "set", "--to", "https://crm.example/hooks", "--json")
    assert json.loads(whole.stdout)["secret"] == MADE


def test_a_secret_and_a_header_s_value_come_from_files_or_are_typed(
    crm: OperatorApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("Bearer t0ken\n")
    monkeypatch.setattr(
        typer, "prompt", lambda _, **how: "whsec_typed" if how["hide_input"] else ""
    )
    header = f"Authorization=@{tmp_path / 'token'}"
    invoke(crm, "set", "--secret-file", "-", "--header", header, typed="whsec_file\n")
    done = invoke(crm, "set", "--ask-secret")
    invoke(crm, "set", "--secret-ref", "env:CRM")
    assert crm.bodies("PUT") == [
        SETTINGS
        | {"secret": "whsec_file", "headers": {"Authorization": "Bearer t0ken", "X-Team": None}},
        SETTINGS | {"secret": "whsec_typed"},
        SETTINGS | {"secret_ref": "env:CRM"},
    ]
    assert "the new secret alone signs from now on" in done.stderr


def test_set_says_what_it_changed(crm: OperatorApi) -> None:
    crm.on("PUT", PATH, CRM | {"enabled": False})
    said = invoke(crm, "set", "--disable").stderr
    assert "changed endpoint crm of tenant acme: enabled: true -> false" in said


def test_a_rotation_says_how_long_the_old_key_signs(crm: OperatorApi) -> None:
    old = {"kind": "v1", "secret_ref": None, "public_key": None, "until": "2026-11-22T09:00:00Z"}
    crm.on("POST", f"{PATH}/rotate", CRM | {"keys": [CRM["keys"][0], old], "secret": MADE})
    done = invoke(crm, "rotate", "--overlap", "2h")
    assert crm.bodies("POST") == [{"overlap_seconds": 7200.0}]
    assert "the old key signs until 2026-11-22T09:00:00Z" in done.stderr
    assert done.stdout.count(MADE) == 1


def test_the_list_shows_which_endpoints_fail(crm: OperatorApi) -> None:
    gone = CRM | {"endpoint_id": "old", "state": CRM["state"] | {"disabled_because": "gone"}}
    listed = {"endpoints": [CRM, gone], "next_cursor": None}
    crm.on("GET", "/v1/tenants/acme/endpoints", listed)
    done = CliRunner().invoke(endpoints, ["list", "--tenant", "acme", "--url", crm.url])
    first, second = done.stdout.splitlines()[1:3]
    assert ("crm" in first, "open" in first) == (True, True)
    assert ("old" in second, "gone" in second) == (True, True)
    other = CRM | {"tenant_id": "bolt"}
    crm.on("GET", "/v1/endpoints", {"endpoints": [other], "next_cursor": None})
    of_all = CliRunner().invoke(endpoints, ["list", "--url", crm.url])
    assert "bolt" in of_all.stdout


def test_a_test_says_in_one_sentence_what_its_last_attempt_met(crm: OperatorApi) -> None:
    attempt = {
        "attempt": 1,
        "at": "2026-11-21T09:00:00.000Z",
        "duration_ms": 12,
        "status": 503,
        "error": "status",
        "detail": "503",
        "excerpt": "try later",
        "address": "93.184.216.34",
    }
    failed = {"delivery_id": "dlv_1", "delivered": False, "attempts": [attempt]}
    crm.on("POST", f"{PATH}/test", failed, failed | {"delivered": True})
    done = invoke(crm, "test")
    assert done.exit_code == 3, "the documented code of what was not delivered"
    assert done.stdout == (
        "test dlv_1 is not delivered after 1 attempt; the last one: answered 503 in 12 ms: "
        "try later\n"
    )
    assert f"see `tidegate deliveries show dlv_1 --url {crm.url}`" in done.stderr
    delivered = invoke(crm, "test", "--json")
    assert (delivered.exit_code, delivered.stderr) == (0, "")
    assert json.loads(delivered.stdout)["delivered"] is True


def test_a_test_may_take_as_long_as_three_attempts(
    crm: OperatorApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed: list[float] = []

    def watched(*given: Any, within: float, **more: Any) -> Any:
        allowed.append(within)
        return call(*given, **more)

    monkeypatch.setattr(operator_command, "call", watched)
    answer = {"delivery_id": "dlv_1", "delivered": True, "attempts": []}
    crm.on("POST", f"{PATH}/test", answer)
    assert invoke(crm, "test").exit_code == 0
    assert allowed[-1] >= 3 * LONGEST_TIMEOUT_SECONDS


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--secret-file", "-", "--ask-secret"], "give only one of"),
        (["--retry", "soon"], "is no duration"),
        (["--rate", "1/1s", "--no-rate"], "not both"),
        (["--header", "X-Team"], "is not NAME=VALUE"),
        (["--header", "X-Team=@/no/such"], "/no/such cannot be read"),
    ],
)
def test_wrong_usage_changes_nothing(crm: OperatorApi, flags: list[str], said: str) -> None:
    refused = invoke(crm, "set", *flags)
    assert (refused.exit_code, crm.bodies("PUT")) == (2, [])
    assert said in told(refused)


def test_an_unknown_tenant_is_told_with_the_command_that_creates_it(operator: OperatorApi) -> None:
    refused = invoke(operator, "set", "--to", "https://crm.example/")
    assert refused.exit_code == 1
    assert "tenants set acme" in told(refused)


def test_a_removed_endpoint_is_named_in_a_sentence(operator: OperatorApi) -> None:
    gone = {"tenant_id": "acme", "endpoint_id": "crm", "removed": True}
    operator.on("DELETE", "/v1/tenants/acme/endpoints/crm", gone)
    done = invoke(operator, "remove")
    assert (done.exit_code, done.stdout) == (0, "endpoint crm of tenant acme is removed\n")

"""`tidegate sources`: settings are merged, and a secret is never in a flag nor shown twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from support.operator_api import OperatorApi
from typer.testing import CliRunner, Result

from streams.api.sources.cli import sources

PATH = "/v1/tenants/acme/sources/shop"
SHOP: dict[str, Any] = {
    "tenant_id": "acme",
    "source": "shop",
    "scheme": "hmac-sha256",
    "mapping": {"event_type": "kind", "attributes": {"total": "order.total", "id": "id"}},
    "dedup_by": "key",
    "options": {"header": "X-Seal", "prefix": "v1="},
    "callback_url": "https://a.example/ends",
    "max_body_bytes": 2_000_000,
    "disabled": False,
    "secrets": 1,
    "secret_ref": None,
    "old_secrets": [],
    "updated_at": "2026-11-21T09:00:00.000Z",
}
SETTINGS = ("scheme", "mapping", "options", "dedup_by", "callback_url", "max_body_bytes")
KEPT = {name: SHOP[name] for name in SETTINGS}


@pytest.fixture
def shop(operator: OperatorApi) -> OperatorApi:
    """The API with tenant acme and its source shop."""
    operator.on("GET", "/v1/tenants/acme", {"tenant_id": "acme"})
    operator.on("GET", PATH, SHOP)
    operator.on("PUT", PATH, SHOP)
    return operator


def invoke(operator: OperatorApi, *arguments: str, typed: str | bytes = "") -> Result:
    whole = [arguments[0], "shop", "--tenant", "acme", *arguments[1:], "--url", operator.url]
    return CliRunner().invoke(sources, whole, input=typed)


def told(result: Result) -> str:
    return " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("flags", "changed"),
    [
        ([], {}),
        (["--max-body-bytes", "9"], {"max_body_bytes": 9}),
        (["--callback-url", ""], {"callback_url": None}),
        (["--dedup-by", "header:X-Run"], {"dedup_by": "header:X-Run"}),
        (
            ["--option", "prefix=", "--option", "encoding=base64"],
            {"options": {"header": "X-Seal", "encoding": "base64"}},
        ),
        (
            ["--option", "tolerance_seconds=60", "--option", "prefix=2"],
            {"options": {"header": "X-Seal", "prefix": "2", "tolerance_seconds": 60.0}},
        ),
        (
            ["--option", "tolerance_seconds=soon"],
            {"options": {**SHOP["options"], "tolerance_seconds": "soon"}},
        ),
        (
            ["--mapping", "dedup_key=[a, b]", "--mapping", "attributes.total="],
            {"mapping": {"event_type": "kind", "dedup_key": "[a, b]", "attributes": {"id": "id"}}},
        ),
        (["--mapping", "attributes=", "--mapping", "event_type="], {"mapping": {}}),
        (
            ["--mapping", "attributes=", "--mapping", "attributes.n=x"],
            {"mapping": {"event_type": "kind", "attributes": {"n": "x"}}},
        ),
        (["--scheme", "hmac-sha256"], {}),
    ],
)
def test_set_keeps_the_settings_and_the_secret_that_it_is_not_told(
    shop: OperatorApi, flags: list[str], changed: dict[str, Any]
) -> None:
    done = invoke(shop, "set", *flags)
    assert (done.exit_code, shop.bodies("PUT")) == (0, [KEPT | changed])
    assert f"have the vendor call {shop.url}/v1/hooks/acme/shop\n" in done.stderr


def test_set_says_what_it_changed(shop: OperatorApi) -> None:
    shop.on("PUT", PATH, SHOP | {"max_body_bytes": 9, "secrets": 2})
    said = invoke(shop, "set", "--max-body-bytes", "9").stderr
    assert "changed source shop of tenant acme: max_body_bytes: 2000000 -> 9" in said
    assert "secrets: 1 -> 2" in said


def test_another_scheme_drops_the_options_of_the_old_one_and_needs_a_secret(
    shop: OperatorApi,
) -> None:
    refused = invoke(shop, "set", "--scheme", "stripe")
    assert (refused.exit_code, shop.bodies("PUT")) == (2, [])
    assert "--secret-file - to read standard input" in told(refused)
    invoke(shop, "set", "--scheme", "stripe", "--secret-file", "-", typed="s3cret\r\n")
    kept = {"callback_url": SHOP["callback_url"], "max_body_bytes": 2_000_000}
    new = {"scheme": "stripe", "options": {}, "mapping": {}, "secret": "s3cret"}
    assert shop.bodies("PUT") == [kept | new]


def test_a_secret_comes_from_a_file_or_is_a_reference(shop: OperatorApi, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("fröm a file\n")
    done = invoke(shop, "set", "--secret-file", str(tmp_path / "secret"), "--json")
    assert "the new secret alone verifies from now on" in done.stderr
    assert "a file" not in done.output
    invoke(shop, "set", "--secret-ref", "env:SHOP")
    assert shop.bodies("PUT") == [
        KEPT | {"secret": "fröm a file"},
        KEPT | {"secret_ref": "env:SHOP"},
    ]


def test_a_generated_secret_never_replaces_one_that_is_in_use(shop: OperatorApi) -> None:
    refused = invoke(shop, "set", "--max-body-bytes", "9", "--generate")
    assert (refused.exit_code, shop.bodies("PUT")) == (2, [])
    rotate = f"`tidegate sources rotate shop --tenant acme --generate --url {shop.url}`"
    assert rotate in refused.stderr
    shop.on("GET", PATH, SHOP | {"disabled": True})
    assert invoke(shop, "set", "--generate").exit_code == 0


def test_a_person_at_a_terminal_is_asked_for_the_secret_that_is_needed(
    shop: OperatorApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.on("GET", PATH, SHOP | {"disabled": True})
    asked: list[dict[str, Any]] = []

    def prompt(_: str, **how: Any) -> str:
        asked.append(how)
        return "typed"

    monkeypatch.setattr(typer, "prompt", prompt)
    monkeypatch.setattr("streams.cli.signing_secret.at_terminal", lambda: True)
    invoke(shop, "set")
    assert shop.bodies("PUT") == [KEPT | {"secret": "typed"}]
    assert asked[0]["hide_input"] is True


@pytest.mark.parametrize(("scheme", "start"), [("stripe", ""), ("standard-webhooks", "whsec_")])
def test_a_generated_secret_is_shown_once_with_the_answer(
    shop: OperatorApi, scheme: str, start: str
) -> None:
    done = invoke(shop, "set", "--scheme", scheme, "--generate", "--json")
    (sent,) = shop.bodies("PUT")
    assert sent["secret"].startswith(start)
    assert len(sent["secret"]) > 40
    assert json.loads(done.stdout)["generated_secret"] == sent["secret"]
    assert sent["secret"] not in done.stderr


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--secret-file", "-", "--generate"], "only one of"),
        (["--secret-file", "-"], "it is empty"),
        (["--secret-file", "/no/such"], "/no/such cannot be read"),
        (["--scheme", "ed25519", "--generate"], "the sender's public key"),
        (["--option", "prefix"], "'prefix' is not NAME=VALUE"),
        (["--mapping", "attributes=x"], "attributes.NAME=JMESPATH"),
    ],
)
def test_wrong_usage_changes_nothing(shop: OperatorApi, flags: list[str], said: str) -> None:
    refused = invoke(shop, "set", *flags)
    assert (refused.exit_code, shop.bodies("PUT")) == (2, [])
    assert said in told(refused)


def test_a_new_source_needs_its_scheme_and_its_tenant(operator: OperatorApi) -> None:
    nobody = invoke(operator, "set", "--scheme", "stripe")
    assert nobody.exit_code == 1
    assert f"`tidegate tenants set acme --url {operator.url}`" in nobody.stderr
    operator.on("GET", "/v1/tenants/acme", {"tenant_id": "acme"})
    schemeless = invoke(operator, "set", "--secret-file", "-", typed="s")
    assert (schemeless.exit_code, "needs its scheme" in told(schemeless)) == (2, True)
    operator.on("PUT", PATH, SHOP)
    done = invoke(operator, "set", "--scheme", "stripe", "--secret-file", "-", typed="s")
    assert done.stderr.startswith("created source shop of tenant acme\n")


def test_rotate_sends_the_overlap_and_says_until_when_the_old_secret_verifies(
    shop: OperatorApi,
) -> None:
    old = {"secret_ref": None, "valid_until": "2026-11-22T09:00:00.000Z"}
    shop.on("POST", f"{PATH}/rotate", SHOP | {"secrets": 2, "old_secrets": [old]})
    done = invoke(shop, "rotate", "--secret-file", "-", typed="new")
    invoke(shop, "rotate", "--overlap", "30m", "--secret-ref", "file:/run/s")
    assert shop.bodies("POST") == [
        {"secret": "new", "overlap_seconds": 86_400},
        {"secret_ref": "file:/run/s", "overlap_seconds": 1_800},
    ]
    assert done.stderr.splitlines() == [
        "one old secret verifies, until 2026-11-22T09:00:00.000Z",
        f"have the vendor that calls {shop.url}/v1/hooks/acme/shop sign with the new one before "
        "then",
        "what is signed otherwise from then on is refused, and counted by `tidegate rejections "
        f"list --tenant acme --url {shop.url}`",
        "to end every old secret at once, set the new one from its file: `tidegate sources set "
        f"shop --tenant acme --secret-file FILE --url {shop.url}`",
    ]


@pytest.mark.parametrize(("overlap", "by"), [("30m", "before the first of them"), ("0s", "now")])
def test_a_rotation_lists_the_end_of_each_old_secret_and_promises_a_refusal_after_the_last(
    shop: OperatorApi, overlap: str, by: str
) -> None:
    ends = ("2026-11-21T09:30:00.000Z", "2026-11-28T09:00:00.000Z")
    old = [{"secret_ref": None, "valid_until": end} for end in ends]
    shop.on("POST", f"{PATH}/rotate", SHOP | {"secrets": 3, "old_secrets": old})
    done = invoke(shop, "rotate", "--overlap", overlap, "--generate", "--json")
    first, vendor, refused, all_at_once = done.stderr.splitlines()
    assert first == f"2 old secrets verify, until {ends[0]} and {ends[1]}"
    assert vendor.endswith(f"sign with the new one {by}")
    assert refused.startswith(f"what is signed otherwise from {ends[1]} on is refused")
    assert "sources set shop --tenant acme --secret-file FILE" in all_at_once


def test_a_rotation_without_an_overlap_shows_the_url_whose_vendor_needs_the_secret_now(
    shop: OperatorApi,
) -> None:
    shop.on("POST", f"{PATH}/rotate", SHOP | {"old_secrets": []})
    flags = ("--overlap", "0s", "--generate", "--ingress", "https://in.example", "--json")
    done = invoke(shop, "rotate", *flags)
    url = "https://in.example/v1/hooks/acme/shop"
    assert json.loads(done.stdout)["hook_url"] == url
    assert done.stderr.splitlines()[:2] == [
        "no old secret verifies any more",
        f"have the vendor that calls {url} sign with the new one now",
    ]


def test_sources_are_listed_shown_and_disabled(shop: OperatorApi) -> None:
    shop.on("GET", "/v1/tenants/acme/sources", {"sources": [SHOP], "next_cursor": None})
    shop.on("DELETE", PATH, SHOP | {"disabled": True})
    listed = CliRunner().invoke(sources, ["list", "--tenant", "acme", "--url", shop.url]).stdout
    assert "hmac-sha256" in listed
    other = SHOP | {"tenant_id": "globex"}
    pages = ({"sources": [SHOP], "next_cursor": "abc"}, {"sources": [other], "next_cursor": None})
    shop.on("GET", "/v1/sources", *pages)
    of_all = CliRunner().invoke(sources, ["list", "--json", "--url", shop.url]).stdout
    assert json.loads(of_all) == {"sources": [SHOP, other], "next_cursor": None}
    asked = [each.path for each in shop.asked if each.path.startswith("/v1/sources")]
    assert asked == ["/v1/sources?limit=200", "/v1/sources?limit=200&cursor=abc"]
    shown = invoke(shop, "show", "--ingress", "https://hooks.example.com/", "--json").stdout
    assert json.loads(shown)["hook_url"] == "https://hooks.example.com/v1/hooks/acme/shop"
    assert json.loads(invoke(shop, "disable", "--json").stdout)["disabled"] is True
    said = invoke(shop, "disable").stdout
    assert said.startswith("source shop of tenant acme is disabled:")
    assert said.count("\n") == 1


def test_no_flag_takes_a_secret() -> None:
    command = typer.main.get_command(sources)
    assert isinstance(command, typer.core.TyperGroup)
    flags = {flag for each in command.commands.values() for p in each.params for flag in p.opts}
    assert "--secret" not in flags


TESTED: dict[str, Any] = {
    "outcome": "accepted",
    "sample": "order.paid",
    "event_type": "order.paid",
    "event_id": "evt_1",
    "job_id": "job_1",
    "routed": True,
    "reason": None,
    "cause": None,
    "detail": None,
    "shown": True,
}


def test_a_test_names_its_event_and_job(shop: OperatorApi) -> None:
    shop.on("POST", f"{PATH}/test", TESTED)
    ran = invoke(shop, "test", "--sample", "order.paid")
    assert (ran.exit_code, ran.stdout) == (0, "accepted order.paid evt_1 job_1\n")
    assert shop.asked[-1].body == {"sample": "order.paid"}


def test_a_test_without_a_route_says_that_it_has_no_job(shop: OperatorApi) -> None:
    shop.on("POST", f"{PATH}/test", {**TESTED, "job_id": None, "routed": False})
    ran = invoke(shop, "test")
    assert (ran.exit_code, "no route matches" in ran.stdout) == (0, True)
    assert shop.asked[-1].body == {}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"outcome": "quarantined", "event_type": None, "reason": "event_type", "detail": "no"},
            "quarantined order.paid evt_1\nevent_type: no\n",
        ),
        (
            {
                "outcome": "refused",
                "event_id": None,
                "reason": "unauthorized",
                "cause": "mismatch",
                "detail": "no",
            },
            "refused order.paid\nunauthorized, mismatch: no\n",
        ),
    ],
)
def test_a_test_that_is_not_accepted_says_why_and_ends_with_3(
    shop: OperatorApi, more: dict[str, Any], said: str
) -> None:
    shop.on("POST", f"{PATH}/test", {**TESTED, "job_id": None, **more})
    ran = invoke(shop, "test")
    assert (ran.exit_code, ran.stdout) == (3, said)

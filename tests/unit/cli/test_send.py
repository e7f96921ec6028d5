"""`tidegate send`: signed as the vendor would, each answer told, and each refusal explained."""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from support.operator_api import OperatorApi, problem
from support.operator_cluster import make_job
from typer.testing import CliRunner, Result

from ingress.schemes import verify
from streams.api.jobs.view import JobDetails, job_json
from streams.cli import send as command
from streams.cli.send import send

SOURCE, HOOK = "/v1/tenants/acme/sources/shop", "/v1/hooks/acme/shop"
SHOP: dict[str, Any] = {
    "tenant_id": "acme",
    "source": "shop",
    "scheme": "stripe",
    "mapping": {},
    "options": {},
    "dedup_by": "key",
    "callback_url": None,
    "max_body_bytes": 1_048_576,
    "disabled": False,
    "secrets": 1,
    "secret_ref": None,
    "old_secrets": [],
    "updated_at": "2026-11-21T09:00:00.000Z",
}
ACCEPTED = (202, {"status": "accepted", "event_id": "evt_a", "job_id": "job_a"})
DUPLICATE = (200, {**ACCEPTED[1], "status": "duplicate"})
UNROUTED = (202, {**ACCEPTED[1], "job_id": None})
UNAUTHORIZED = problem(401, "unauthorized")

app = typer.Typer()
app.command()(send)


@pytest.fixture
def shop(operator: OperatorApi, tmp_path: Path) -> OperatorApi:
    """The API with a source that was set long ago, and its ingress; `secret` is a file."""
    (tmp_path / "secret").write_text("s3cret\n")
    ended = {**job_json(make_job("job_a"), JobDetails()), "status": "succeeded"}
    operator.on("GET", "/v1/tenants/acme", {"tenant_id": "acme", "disabled": False})
    operator.on("GET", SOURCE, SHOP)
    operator.on("GET", "/v1/jobs/job_a", ended)
    told = f"id: 1\nevent: status\ndata: {json.dumps(ended)}\n\n".encode()
    operator.on("GET", "/v1/jobs/job_a/events", told)
    operator.on("POST", HOOK, ACCEPTED)
    return operator


def invoke(api: OperatorApi, *arguments: str, typed: bytes = b"") -> Result:
    whole = ["--tenant", "acme", "--source", "shop", *arguments, "--url", api.url]
    return CliRunner().invoke(app, whole, input=typed)


def by_file(api: OperatorApi, tmp_path: Path, *arguments: str, typed: bytes = b"") -> Result:
    secret = str(tmp_path / "secret")
    return invoke(api, *arguments, "--secret-file", secret, typed=typed)


def signed_by_operator(api: OperatorApi) -> None:
    body = base64.b64encode(b"{}").decode()
    signed = {"url": f"{api.url}{HOOK}", "headers": {"X-Seal": "s"}, "body_base64": body}
    api.on("POST", f"{SOURCE}/sign", signed)


def delivered(api: OperatorApi) -> list[tuple[dict[str, str], bytes]]:
    return [(each.headers, each.raw) for each in api.asked if each.path.startswith("/v1/hooks/")]


def test_a_sample_is_signed_by_the_operator_delivered_and_followed(shop: OperatorApi) -> None:
    body = base64.b64encode(b'{"signed": 1}').decode()
    url = f"{shop.url}{HOOK}?by=operator"
    signed = {"url": url, "headers": {"X-Seal": "s"}, "body_base64": body}
    shop.on("POST", f"{SOURCE}/sign", signed)
    shop.on("POST", HOOK, ACCEPTED, DUPLICATE)
    done = invoke(shop, "--sample", "invoice.paid", "--times", "3")
    asked = next(each.body for each in shop.asked if each.path.endswith("/sign"))
    sample = json.loads(base64.b64decode(asked["body_base64"]))
    assert (asked["url"], sample["type"]) == (f"{shop.url}{HOOK}", "invoice.paid")
    assert [(headers["X-Seal"], raw) for headers, raw in delivered(shop)] == [
        ("s", b'{"signed": 1}')
    ] * 3
    hooks = [each.path for each in shop.asked if each.path.startswith("/v1/hooks/")]
    assert hooks == [f"{HOOK}?by=operator"] * 3
    *answers, end = done.stdout.splitlines()
    assert answers == ["202 accepted evt_a job_a", *["200 duplicate evt_a job_a"] * 2]
    assert "job_a succeeded" in end
    assert done.exit_code == 0


@pytest.mark.parametrize(
    ("first", "told"),
    [("evt_first", ["evt_a is a duplicate of evt_first, and made no new job"]), ("evt_a", [])],
)
def test_a_redelivery_that_the_ingress_does_not_remember_is_told_by_its_job(
    shop: OperatorApi, tmp_path: Path, first: str, told: list[str]
) -> None:
    job = job_json(make_job("job_a"), JobDetails())
    shop.on("GET", "/v1/jobs/job_a", job | {"status": "succeeded", "event_id": first})
    done = by_file(shop, tmp_path, "--sample", "invoice.paid")
    assert (done.exit_code, done.stderr.splitlines()) == (0, told)


def test_an_unknown_tenant_is_named_before_its_source(shop: OperatorApi) -> None:
    shop.on("GET", SOURCE, problem(404, "source-unknown"))
    shop.on("GET", "/v1/tenants/acme", problem(404, "tenant-unknown", "there is no tenant 'acme'"))
    done = invoke(shop)
    assert done.exit_code == 1
    assert "there is no tenant 'acme'" in done.stderr
    assert "sources set" not in done.stderr


@pytest.mark.parametrize("file", ["-", "body.json"])
def test_a_body_of_ones_own_is_signed_under_a_secret_of_ones_own(
    shop: OperatorApi, tmp_path: Path, file: str
) -> None:
    body = b'{"id": "e1",\r\n "type": "order.paid"}\n'
    (tmp_path / "body.json").write_bytes(body)
    given = file if file == "-" else str(tmp_path / file)
    done = by_file(
        shop, tmp_path, given, "--header", "content-type:text/x", "--no-wait", "--json", typed=body
    )
    ((headers, raw),) = delivered(shop)
    assert raw == body
    assert verify("stripe", [b"s3cret"], headers, raw).key_index == 0
    names = [name.lower() for name in headers]
    assert (names.count("content-type"), headers["content-type"]) == (1, "text/x")
    assert json.loads(done.stdout) == {**ACCEPTED[1], "delivery": 1, "http_status": 202}
    assert "s3cret" not in done.output
    assert not any("/jobs/" in each.path or "/sign" in each.path for each in shop.asked)


def test_a_sample_carries_the_headers_that_name_its_event(
    shop: OperatorApi, tmp_path: Path
) -> None:
    shop.on("GET", SOURCE, SHOP | {"scheme": "github"})
    by_file(shop, tmp_path, "--sample", "push", "--no-wait")
    ((headers, _),) = delivered(shop)
    assert headers["X-GitHub-Event"] == "push"


@pytest.mark.parametrize(
    ("scheme", "given", "named"),
    [
        ("github", [], "--header X-GitHub-Event:issues"),
        ("github", ["--header", "x-github-event:pu sh"], "--header X-GitHub-Event:issues"),
        ("shopify", ["--header", "X-Other:1"], "--header X-Shopify-Topic:orders/create"),
    ],
)
def test_an_event_whose_type_no_header_names_is_not_sent(
    shop: OperatorApi, tmp_path: Path, scheme: str, given: list[str], named: str
) -> None:
    shop.on("GET", SOURCE, SHOP | {"scheme": scheme})
    refused = by_file(shop, tmp_path, "-", *given, typed=b"{}")
    assert (refused.exit_code, delivered(shop)) == (2, [])
    assert named in " ".join(refused.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("mapping", "given"), [({}, ["--header", "x-github-event:push"]), ({"event_type": "kind"}, [])]
)
def test_an_event_whose_type_is_named_is_sent(
    shop: OperatorApi, tmp_path: Path, mapping: dict[str, str], given: list[str]
) -> None:
    shop.on("GET", SOURCE, SHOP | {"scheme": "github", "mapping": mapping})
    done = by_file(shop, tmp_path, "-", *given, "--no-wait", typed=b'{"kind": "push"}')
    assert (done.exit_code, len(delivered(shop))) == (0, 1)


def test_the_help_names_the_samples_of_every_scheme() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "400"}).stdout
    assert "stripe: charge.refunded, invoice.paid; github: issues, push, workflow_run;" in shown


def test_an_event_without_a_route_is_told_with_the_route_that_it_lacks(
    shop: OperatorApi, tmp_path: Path
) -> None:
    shop.on("POST", HOOK, UNROUTED)
    shop.on("GET", "/v1/events/evt_a", {"route": None})
    done = by_file(shop, tmp_path, "-", typed=b'{"id": "e1", "type": "order.paid"}')
    assert done.exit_code == 3
    assert '- match: {source: shop, event_type: "order.paid"}' in done.stderr
    assert f"tidegate events route evt_a --note TEXT --url {shop.url}" in done.stderr
    assert by_file(shop, tmp_path, "--no-wait").exit_code == 0


def test_an_event_whose_route_only_cancels_is_a_success(
    shop: OperatorApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator shows it a moment after the ingress answered."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    route = {"job": None, "cancels": {"job": "follow_up", "by": "subject"}}
    shop.on("POST", HOOK, UNROUTED)
    shown = {"route": route, "subject": "o-1"}
    shop.on("GET", "/v1/events/evt_a", problem(404, "event-unknown"), shown)
    done = by_file(shop, tmp_path, "-", typed=b'{"id": "e1", "type": "order.paid"}')
    assert (done.exit_code, slept) == (0, [0.0, 0.3])
    assert "cancels earlier jobs of type follow_up by subject" in done.stderr
    assert "no route" not in done.stderr


def test_an_event_that_cancels_nothing_for_want_of_a_value_says_so(
    shop: OperatorApi, tmp_path: Path
) -> None:
    shop.on("POST", HOOK, UNROUTED)
    for by in ("subject", "attributes.order"):
        route = {"job": None, "cancels": {"job": "follow_up", "by": by}}
        shown = {"route": route, "subject": None, "attributes": {"status": "paid"}}
        shop.on("GET", "/v1/events/evt_a", shown)
        done = by_file(shop, tmp_path)
        assert f"cancels none of type follow_up, because the event has no {by}: map" in done.stderr


def test_an_event_that_jobs_wait_for_needs_no_route(shop: OperatorApi, tmp_path: Path) -> None:
    shop.on("POST", HOOK, UNROUTED)
    shop.on("GET", "/v1/events/evt_a", {"route": None, "awaited_by": ["follow_up"]})
    done = by_file(shop, tmp_path)
    assert done.exit_code == 0
    assert "jobs of type follow_up that wait for such an event go on" in done.stderr
    assert "YOUR_JOB" not in done.stderr


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (UNAUTHORIZED, ["secret is not that of source shop", "without --secret-file"]),
        (
            problem(400, "malformed-body"),
            ["400 malformed-body: the body does not fit source shop: ", "is not JSON"],
        ),
        (
            (202, {"status": "quarantined", "event_id": "evt_q"}),
            ["is not JSON", "--mapping FIELD=JMESPATH", "tidegate quarantine release evt_q"],
        ),
        (problem(429, "rate-limited"), ["tidegate tenants show acme"]),
        (problem(429, "backlog-full"), ["too many jobs are waiting", "tidegate jobs backlog"]),
        (problem(413, "too-large"), ["takes 1048576", "--max-body-bytes N"]),
        (problem(503, "unavailable", "try later"), ["503 unavailable: try later"]),
        (problem(404, "not-found"), ["name one with --ingress"]),
        ((200, {"challenge": "c"}), ["a vendor's handshake"]),
        ((502, ["no object"]), ["502 bad gateway: no further word"]),
    ],
)
def test_a_refusal_is_told_with_its_cause_and_the_next_step(
    shop: OperatorApi, tmp_path: Path, answer: Any, said: list[str]
) -> None:
    shop.on("POST", HOOK, answer)
    done = by_file(shop, tmp_path, "-", "--times", "3", typed=b"{")
    told = done.stderr.replace("secret in " + str(tmp_path / "secret"), "secret")
    assert done.exit_code == 1
    assert len(delivered(shop)) == 1
    assert [part for part in said if part not in told] == []


def test_a_disabled_tenant_or_source_and_an_unknown_one_are_named(
    shop: OperatorApi, tmp_path: Path
) -> None:
    shop.on("POST", HOOK, UNAUTHORIZED)
    shop.on("GET", "/v1/tenants/acme", {"tenant_id": "acme", "disabled": True})
    enable = f"`tidegate tenants set acme --url {shop.url}`"
    assert enable in by_file(shop, tmp_path).stderr
    shop.on("GET", SOURCE, SHOP | {"disabled": True})
    disabled = by_file(shop, tmp_path)
    assert (disabled.exit_code, "source shop is disabled" in disabled.stderr) == (2, True)
    shop.on("GET", SOURCE, problem(404, "source-unknown"))
    assert "`tidegate sources set shop --tenant acme" in by_file(shop, tmp_path).stderr


def test_a_source_that_was_set_just_now_may_be_unknown_to_the_ingress_for_a_moment(
    shop: OperatorApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_PAUSES_SECONDS", (0, 0, 0))
    signed_by_operator(shop)
    shop.on("GET", SOURCE, SHOP | {"updated_at": datetime.now(UTC).isoformat()})
    shop.on("POST", HOOK, UNAUTHORIZED, UNAUTHORIZED, ACCEPTED)
    done = invoke(shop, "--no-wait")
    assert (done.exit_code, done.stdout) == (0, "202 accepted evt_a job_a\n")
    assert done.stderr.count("may not know source shop yet") == 2


def test_an_ingress_that_keeps_refusing_is_asked_a_few_times(
    shop: OperatorApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_PAUSES_SECONDS", (0, 0, 0))
    signed_by_operator(shop)
    shop.on("GET", SOURCE, SHOP | {"updated_at": datetime.now(UTC).isoformat()})
    shop.on("POST", HOOK, UNAUTHORIZED)
    assert (invoke(shop, "--no-wait").exit_code, len(delivered(shop))) == (1, 4)


def test_a_secret_of_ones_own_that_is_refused_is_not_tried_again(
    shop: OperatorApi, tmp_path: Path
) -> None:
    shop.on("GET", SOURCE, SHOP | {"updated_at": datetime.now(UTC).isoformat()})
    shop.on("POST", HOOK, UNAUTHORIZED)
    refused = by_file(shop, tmp_path, "--no-wait")
    assert (refused.exit_code, len(delivered(shop))) == (1, 1)
    assert "trying again" not in refused.stderr


def test_what_the_operator_cannot_sign_is_told_as_it_says_it(shop: OperatorApi) -> None:
    shop.on("POST", f"{SOURCE}/sign", problem(409, "cannot-sign", "sign with a --secret-file"))
    refused = invoke(shop)
    assert (refused.exit_code, refused.stderr) == (1, "error: sign with a --secret-file\n")
    assert delivered(shop) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["body.json", "--sample", "x"], "not both"),
        (["-", "--secret-file", "-"], "not both"),
        (["/no/such"], "/no/such cannot be read"),
        (["--header", "X-A"], "is not NAME:VALUE"),
        (["--sample", "no.such"], "use one of charge.refunded, invoice.paid"),
        (["--times", "0"], "--times"),
    ],
)
def test_wrong_usage_delivers_nothing(shop: OperatorApi, arguments: list[str], said: str) -> None:
    refused = invoke(shop, *arguments)
    assert (refused.exit_code, delivered(shop)) == (2, [])
    assert said in " ".join(refused.stderr.replace("│", " ").split())


def test_no_ingress_is_told_with_its_address(shop: OperatorApi, tmp_path: Path) -> None:
    refused = by_file(shop, tmp_path, "--ingress", "http://127.0.0.1:9/")
    assert refused.exit_code == 1
    assert "no ingress answers at http://127.0.0.1:9/v1/hooks/acme/shop" in refused.stderr

"""`tidegate deliveries` asks what it is told to ask, and shows what came of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.operator_api import OperatorApi, problem
from support.operator_cluster import make_event, make_job
from support.outgoing_rows import make_delivery
from typer.testing import CliRunner, Result

from streams.api.deliveries import cli as module
from streams.api.deliveries.cli import deliveries
from streams.api.deliveries.table import delivery_json
from streams.api.events.cli import events
from streams.api.events.table import event_details, event_json
from streams.api.jobs.cli import jobs
from streams.api.jobs.view import JobDetails, job_json

ATTEMPT = {
    "attempt": 1,
    "at": "2026-11-21T09:00:00.000Z",
    "duration_ms": 12,
    "address": "192.0.2.7",
    "status": 503,
    "error": "http_status",
    "detail": "503",
    "excerpt": "out of \x1b[31morder",
    "next_attempt_at": None,
}
ROW = delivery_json(
    make_delivery(status="parked", attempts=1, parked_because="endpoint_disabled"), [ATTEMPT]
)
ENDPOINT = "/v1/tenants/acme/endpoints/crm"


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BETWEEN_LOOKS_SECONDS", 0)


def invoke(operator: OperatorApi, *arguments: str, group: Any = deliveries) -> Result:
    return CliRunner().invoke(group, [*arguments, "--url", operator.url])


def begun(**fields: Any) -> dict[str, Any]:
    given = {
        "dry_run": False,
        "command_id": "cmd_1",
        "matched": 40,
        "tenant_id": "acme",
        "endpoint_id": "crm",
        "since": "2026-11-21T09:00:00.000Z",
        "until": "2026-11-21T11:00:00.000Z",
        "statuses": ["parked"],
        "recovery": None,
        "answered": True,
    }
    return given | fields


def recovery(recovered: int, command_id: str = "cmd_1", **fields: Any) -> dict[str, Any]:
    return {"command_id": command_id, "recovered": recovered, "ended_at": None, **fields}


def test_a_list_says_why_a_delivery_is_parked(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/deliveries", {"deliveries": [ROW], "next_cursor": "abc"})
    listed = invoke(
        operator,
        "list",
        "--tenant",
        "acme",
        "--endpoint",
        "crm",
        "--status",
        "parked",
        "--since",
        "2026-11-21T09:00:00Z",
    )
    assert listed.exit_code == 0, listed.output
    assert "parked: endpoint_disabled" in listed.stdout
    assert "more: --cursor abc" in listed.stdout
    assert operator.asked[0].path == (
        "/v1/deliveries?tenant_id=acme&limit=50&endpoint_id=crm&status=parked"
        "&since=2026-11-21T09:00:00Z"
    )


def test_a_list_and_one_delivery_say_why_it_waits(operator: OperatorApi) -> None:
    waits = {"reason": "circuit", "until": "2026-11-21T09:00:30.000Z", "detail": "mend crm"}
    row = delivery_json(make_delivery(), [], waits)
    operator.on("GET", "/v1/deliveries", {"deliveries": [row], "next_cursor": None})
    assert "pending: circuit" in invoke(operator, "list").stdout
    operator.on("GET", "/v1/deliveries/dlv_a", row)
    shown = invoke(operator, "show", "dlv_a").stdout
    assert "why it waits" in shown
    assert "mend crm" in shown
    operator.on("POST", "/v1/deliveries/dlv_a/retry", {**row, "answered": True}, status=202)
    assert "is pending, and it waits: mend crm" in invoke(operator, "retry", "dlv_a").stdout


def test_one_delivery_of_a_disabled_tenant_shows_the_command_that_enables_it(
    operator: OperatorApi,
) -> None:
    helps = {"method": "PUT", "path": "/v1/tenants/acme"}
    waits = {"reason": "tenant_disabled", "until": None, "detail": "disabled", "remedy": helps}
    operator.on("GET", "/v1/deliveries/dlv_a", delivery_json(make_delivery(), [], waits))
    shown = " ".join(invoke(operator, "show", "dlv_a").stdout.split())
    assert f"command tidegate tenants set acme --url {operator.url}" in shown


def test_a_retry_that_is_parked_again_says_why(operator: OperatorApi) -> None:
    row = delivery_json(make_delivery(status="parked", parked_because="endpoint_removed"), [])
    operator.on("POST", "/v1/deliveries/dlv_a/retry", {**row, "answered": True}, status=202)
    told = invoke(operator, "retry", "dlv_a").stdout
    assert "is parked: its endpoint was removed; create it with `tidegate endpoints set`" in told


def test_a_list_shows_the_status_that_a_receiver_answered(operator: OperatorApi) -> None:
    row = delivery_json(
        make_delivery(status="pending", attempts=1, last_status=503, last_error="status"), []
    )
    operator.on("GET", "/v1/deliveries", {"deliveries": [row], "next_cursor": None})
    assert "503" in invoke(operator, "list").stdout.splitlines()[-1]


def test_one_delivery_is_shown_with_its_attempts_and_the_last_answer(
    operator: OperatorApi,
) -> None:
    operator.on("GET", "/v1/deliveries/dlv_a", ROW)
    shown = invoke(operator, "show", "dlv_a")
    assert shown.exit_code == 0, shown.output
    assert "http_status" in shown.stdout
    assert "out of \ufffd[31morder" in shown.stdout
    assert json.loads(invoke(operator, "show", "dlv_a", "--json").stdout) == ROW


@pytest.mark.parametrize(("answered", "code"), [(True, 0), (False, 1)])
def test_a_retry_that_nobody_took_ends_with_1(
    operator: OperatorApi, answered: bool, code: int
) -> None:
    operator.on("POST", "/v1/deliveries/dlv_a/retry", {**ROW, "answered": answered}, status=202)
    done = invoke(operator, "retry", "dlv_a")
    assert done.exit_code == code
    assert operator.bodies("POST") == [{}]
    assert done.stdout.startswith(f"dlv_a to endpoint crm is {ROW['status']}")
    assert done.stdout.count("\n") == 1
    if not answered:
        assert "no delivery stage carried it out" in done.stderr
        assert f"tidegate deliveries show dlv_a --url {operator.url}" in done.stderr


def test_a_dry_run_counts(operator: OperatorApi) -> None:
    operator.on("POST", f"{ENDPOINT}/recover", {"dry_run": True, "matched": 40})
    done = invoke(
        operator,
        "recover",
        "crm",
        "--tenant",
        "acme",
        "--since",
        "2h",
        "--status",
        "parked",
        "--dry-run",
    )
    assert (done.exit_code, "40" in done.stdout) == (0, True)
    (body,) = operator.bodies("POST")
    assert (body["status"], body["dry_run"], "until" in body) == ("parked", True, False)
    assert body["since"].endswith("Z")


def test_a_recovery_is_watched_until_it_has_ended(operator: OperatorApi) -> None:
    operator.on("POST", f"{ENDPOINT}/recover", (202, begun(answered=False)))
    ended = recovery(40, ended_at="2026-11-21T11:00:09.000Z")
    looks = [recovery(7, "cmd_0"), recovery(10), recovery(10), ended]
    restarted = problem(503, "not-ready")
    shown = ({"state": {"recovery": each}} for each in looks)
    operator.on("GET", ENDPOINT, restarted, *shown)
    done = invoke(
        operator,
        "recover",
        "crm",
        "--tenant",
        "acme",
        "--since",
        "2h",
        "--watch",
        "--key",
        "k1",
        "--json",
    )
    assert done.exit_code == 0, done.output
    assert done.stderr.splitlines() == ["recovered 10 of 40"]
    assert json.loads(done.stdout)["recovery"] == ended
    assert operator.asked[0].headers["Idempotency-Key"] == "k1"


def test_a_recovery_is_told_in_one_sentence(operator: OperatorApi) -> None:
    asked = ("recover", "crm", "--tenant", "acme", "--since", "2h")
    ended = recovery(40, ended_at="2026-11-21T11:00:09.000Z")
    operator.on(
        "POST",
        f"{ENDPOINT}/recover",
        (202, {"dry_run": True, "matched": 1}),
        (202, begun(recovery=recovery(7))),
        (202, begun(recovery=ended)),
    )
    assert [invoke(operator, *asked).stdout for _ in range(3)] == [
        "1 delivery would be due\n",
        "7 of 40 deliveries are due so far\n",
        "40 of 40 deliveries are due: the recovery has ended\n",
    ]


def test_a_recovery_has_ended_once_a_later_one_runs(operator: OperatorApi) -> None:
    operator.on("POST", f"{ENDPOINT}/recover", (202, begun(recovery=recovery(10))))
    operator.on("GET", ENDPOINT, {"state": {"recovery": recovery(1, "cmd_2")}})
    done = invoke(operator, "recover", "crm", "--tenant", "acme", "--since", "2h", "--watch")
    assert done.exit_code == 0, done.output


def test_a_recovery_that_does_not_begin_ends_the_watch(
    operator: OperatorApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BEGUN_WITHIN_SECONDS", 0)
    operator.on("POST", f"{ENDPOINT}/recover", (202, begun(answered=False)))
    operator.on("GET", ENDPOINT, {"state": {"recovery": None}})
    done = invoke(operator, "recover", "crm", "--tenant", "acme", "--since", "2h", "--watch")
    assert (done.exit_code, "is `tidegate delivery` running?" in done.stderr) == (1, True)


def test_a_refused_recovery_tells_why(operator: OperatorApi) -> None:
    operator.on("POST", f"{ENDPOINT}/recover", problem(409, "endpoint-disabled", "PUT it first"))
    done = invoke(operator, "recover", "crm", "--tenant", "acme", "--since", "2h")
    assert (done.exit_code, "PUT it first" in done.stderr) == (1, True)


def test_a_job_and_an_event_show_their_deliveries(operator: OperatorApi) -> None:
    told = delivery_json(make_delivery("dlv_told", kind="callback", endpoint_id="callbacks"), [])
    job = {**job_json(make_job(), JobDetails()), "why": None, "deliveries": [told]}
    operator.on("GET", "/v1/jobs/job_a", job)
    assert "dlv_told" in invoke(operator, "show", "job_a", group=jobs).stdout
    event = make_event()
    story = {
        **event_json(event, "job_a"),
        **event_details(event),
        "partition": 0,
        "offset": 1,
        "duplicates": None,
        "job": job,
        "replays": [],
        "dead_letters": [],
        "quarantine": None,
        "deliveries": [ROW, told],
    }
    operator.on("GET", "/v1/events/evt_k1", story)
    shown = invoke(operator, "show", "evt_k1", group=events)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.count("dlv_a") == shown.stdout.count("dlv_told") == 1

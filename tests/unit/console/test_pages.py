"""Pages as a browser without scripts sees them: sign-in, what is shown, and forms."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.console_desk import Console, console
from support.folding import fold
from support.operator_cluster import make_entry, make_event, make_job, make_letter
from support.outgoing_rows import make_endpoint, make_state

from streams.console.overview.finding import page_of_id
from streams.console.serving import asking, templates
from streams.console.serving.asking import Answer
from streams.console.serving.written import page_of
from streams.limits.paused import SCOPES
from streams.serde.records import LimitKey, Settle, TenantRecord
from streams.topology.breakers import Breaker


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Console]:
    async with console(tmp_path) as made:
        yield made


async def test_a_stranger_is_sent_to_the_sign_in_and_comes_back(desk: Console) -> None:
    browser = await desk.browser()
    html = await browser.page("/console/jobs")
    assert "<h1>Sign in</h1>" in html
    token = desk.api.office.token("viewer", None)
    status, html = await browser.enter(token)
    assert status == 200
    assert "<h1>Jobs</h1>" in html


async def test_an_empty_list_teaches_what_makes_the_first_entry(desk: Console) -> None:
    browser = await desk.signed_in("viewer")
    assert "tidegate send" in await browser.page("/console/jobs")


async def test_a_job_is_shown_and_cancelled_by_a_form(desk: Console) -> None:
    fold(desk.api.desk.rows, make_job("job_a", status="scheduled", scheduled_at=1))
    browser = await desk.signed_in("operator")
    html = await browser.page("/console/jobs/job_a")
    desk.api.desk.answer("cmd_1")
    status, html = await browser.act(html, "POST /v1/jobs/job_a/cancel", reason="not needed")
    assert status == 200, html
    assert "Cancel: done." in html


async def test_what_a_person_may_not_do_is_not_shown_and_is_refused(desk: Console) -> None:
    fold(desk.api.desk.rows, make_job("job_a", status="scheduled", scheduled_at=1))
    viewer, operator = await desk.signed_in("viewer"), await desk.signed_in("operator")
    assert "/cancel" not in await viewer.page("/console/jobs/job_a")
    html = await operator.page("/console/jobs/job_a")
    own = await viewer.page("/console/jobs")
    status, html = await viewer.act_with_csrf_of(
        own, html, "POST /v1/jobs/job_a/cancel", reason="x"
    )
    assert status == 403
    assert "operate" in html


async def test_another_tenants_job_does_not_exist(desk: Console) -> None:
    fold(desk.api.desk.rows, make_job("job_a", tenant_id="acme"))
    browser = await desk.signed_in("viewer", frozenset({"globex"}))
    status, html = await browser.get("/console/jobs/job_a")
    assert status == 404
    assert "job_a" in html


async def test_odd_text_is_shown_as_it_is_and_never_runs(desk: Console) -> None:
    odd = "<script>alert(1)</script>\u202eevil\x1b[31m"
    fold(desk.api.desk.rows, make_job("job_a", last_error=odd))
    html = await (await desk.signed_in("viewer")).page("/console/jobs")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202eevil\\u001b[31m" in html


async def test_the_console_is_also_found_with_a_slash_at_its_end(desk: Console) -> None:
    assert "<h1>Overview</h1>" in await (await desk.signed_in("viewer")).page("/console/")


async def test_an_id_that_is_not_there_is_a_dash(desk: Console) -> None:
    read = make_event(routed=False)
    fold(desk.api.desk.rows, read)
    html = await (await desk.signed_in("viewer")).page("/console/events")
    assert str(read.event_id) in html
    assert "None" not in html


async def test_a_dead_letter_leads_to_its_cause_and_a_failed_job_to_its_letter(
    desk: Console,
) -> None:
    died = make_job("job_a", status="failed", last_error="ValueError: no currency")
    fold(desk.api.desk.rows, died, make_letter(died))
    browser = await desk.signed_in("viewer")
    assert 'href="/console/dlq/job_a"' in await browser.page("/console/jobs/job_a")
    letter = await browser.page("/console/dlq/job_a")
    assert re.search(r'href="/console/causes/cau_\w+"', letter)


async def test_a_job_that_asks_a_person_leads_to_what_it_asks(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = {
        "job_id": "job_a",
        "status": "waiting",
        "tenant_id": "acme",
        "why": {"reason": "outside", "detail": "it waits for a person"},
        "waits": [{"kind": "approval", "approval_id": "apr_1"}],
    }
    browser = await desk.signed_in("viewer")
    answers(monkeypatch, {"/v1/jobs/job_a": shown, "/v1/jobs/job_a/artifacts": {}})
    html = await browser.page("/console/jobs/job_a")
    assert '<a href="/console/approvals/apr_1">Answer it</a>' in html


@pytest.mark.parametrize(
    ("reason", "page"),
    [("paused", "limits"), ("cap", "limits"), ("circuit", "limits"), ("no_worker", "workers")],
)
async def test_why_a_job_waits_leads_to_where_that_is_mended(
    desk: Console, monkeypatch: pytest.MonkeyPatch, reason: str, page: str
) -> None:
    why = {"reason": reason, "detail": "it waits"}
    shown = {"job_id": "job_a", "status": "pending", "tenant_id": "acme", "why": why}
    browser = await desk.signed_in("viewer")
    answers(monkeypatch, {"/v1/jobs/job_a": shown, "/v1/jobs/job_a/artifacts": {}})
    html = await browser.page("/console/jobs/job_a")
    told = html.partition("Why it waits")[2].partition("</p>")[0]
    assert f'href="/console/{page}"' in told


@pytest.mark.parametrize(
    ("role", "tenants", "told"),
    [
        ("viewer", frozenset({"acme"}), "You see what you did yourself."),
        ("viewer", None, "You see what you did yourself."),
        ("admin", frozenset({"acme"}), "You see what was done about your tenants."),
        ("admin", None, ""),
    ],
)
async def test_the_audit_says_whose_acts_are_left_out(
    desk: Console, role: str, tenants: frozenset[str] | None, told: str
) -> None:
    html = await (await desk.signed_in(role, tenants)).page("/console/audit")
    assert told in html
    assert ("You see" in html) == bool(told)
    assert ("You have done nothing yet" in html) == (role == "viewer")


@pytest.mark.parametrize("page", ["/console/jobs/job_a", "/console/reviews"])
@pytest.mark.parametrize(
    ("answer", "typed", "command"),
    [
        ("It happened", {"result:json": '{"id": 7}'}, ("done", '{"id":7}')),
        ("It did not", {}, ("failed", None)),
    ],
)
async def test_an_effect_of_a_job_in_review_is_settled(
    desk: Console, page: str, answer: str, typed: dict[str, str], command: tuple[str, str | None]
) -> None:
    job = make_job("job_a", status="needs_review")
    unknown = make_entry(job, "mail:send/a/b", status="unknown", result=None)
    fold(desk.api.desk.rows, job, unknown, make_entry(job, "shop:pay/1"))
    browser = await desk.signed_in("operator")
    html = await browser.page(page)
    assert html.count("It happened</summary>") == 1, "the other one is done"
    form = html[html.index(f"{answer}</summary>") :]
    desk.api.desk.answer("cmd_1")
    status, html = await browser.act(form, "POST /v1/jobs/job_a", note="the log shows it", **typed)
    assert (status, f"{answer}: done." in html) == (200, True), html
    (sent,) = desk.api.desk.sent
    assert isinstance(sent, Settle)
    assert (sent.action, sent.note) == ("mail:send/a/b", "the log shows it")
    assert (sent.status, sent.result) == command


async def test_an_effect_of_a_job_that_has_ended_is_settled(desk: Console) -> None:
    job = make_job("job_a", status="failed")
    fold(desk.api.desk.rows, job, make_entry(job, "mail:send/x", status="unknown", result=None))
    browser = await desk.signed_in("operator")
    html = await browser.page("/console/reviews")
    desk.api.desk.answer("cmd_1")
    form = html[html.index("It did not</summary>") :]
    status, html = await browser.act(form, "POST /v1/jobs/job_a", note="no trace of it")
    assert (status, len(desk.api.desk.sent)) == (200, 1), html


async def test_what_is_paused_is_resumed_from_the_page_of_a_job_that_waits(desk: Console) -> None:
    body = '{"by":"ann","reason":"the bank is down"}'
    pauses = [TenantRecord("", "pause", f"{n}/job_type/draft_reply", False, body) for n in range(4)]
    fold(desk.api.desk.rows, make_job("job_a", status="pending"), *pauses)
    viewer, operator = await desk.signed_in("viewer"), await desk.signed_in("operator")
    html = await viewer.page("/console/jobs/job_a")
    assert "by ann: the bank is down. It starts once that is resumed" in html
    assert ("Resume job type" in html, "tidegate limits" in html) == (False, False)
    html = await operator.page("/console/jobs/job_a")
    assert "Resume job type draft_reply</summary>" in html
    status, html = await operator.act(html, "POST /v1/limits/resume")
    assert (status, "Resume job type draft_reply: done." in html) == (200, True), html
    assert "is paused since" not in html


async def test_a_delivery_says_why_it_waits_and_leads_to_where_that_is_mended(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = {"reason": "circuit", "detail": "it has failed", "until": None}
    shown = {"delivery_id": "dlv_1", "tenant_id": "acme", "endpoint_id": "crm", "waits": waits}
    browser = await desk.signed_in("viewer")
    answers(monkeypatch, {"/v1/deliveries/dlv_1": {**shown, "status": "pending"}})
    html = await browser.page("/console/deliveries/dlv_1")
    told = html.partition("Why it waits:</b>")[2].partition("</p>")[0]
    assert told.strip().startswith("it has failed")
    assert 'href="/console/endpoints/acme/crm"' in told


async def test_an_endpoint_that_fails_says_so_and_what_was_answered(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = {"circuit": "closed", "failing_since": "2026-11-21T09:00:00.000Z"}
    shown = {"tenant_id": "acme", "endpoint_id": "crm", "enabled": True, "events": ["job.*"]}
    sent = {"delivery_id": "dlv_1", "status": "dead", "last_error": "status", "last_status": 400}
    path = "/v1/tenants/acme/endpoints/crm"
    browser = await desk.signed_in("viewer")
    answers(
        monkeypatch,
        {path: {**shown, "state": state}, f"{path}/deliveries": {"deliveries": [sent]}},
    )
    html = await browser.page("/console/endpoints/acme/crm")
    assert '<span class="status s-failing">failing</span>' in html
    assert "<dd>job.*</dd>" in html
    assert "<td>answered 400</td>" in html


def answers(monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]) -> None:
    """Have the API answer this."""

    async def call(_: Any, __: str, target: Any, *___: Any) -> Answer:
        return Answer(given[str(target).partition("?")[0]], {})

    monkeypatch.setattr(asking.Asking, "call", call)


async def test_whatever_can_be_paused_can_be_chosen(desk: Console) -> None:
    html = await (await desk.signed_in("admin")).page("/console/limits")
    chosen = html.partition('<select name="scope">')[2].partition("</select>")[0]
    assert tuple(re.findall(r'<option value="(\w+)"', chosen)) == SCOPES


async def test_the_overview_leads_to_tools_that_are_cut_off_and_to_endpoints_that_fail(
    desk: Console,
) -> None:
    desk.api.desk.topology = replace(desk.api.desk.topology, breakers=(Breaker("mail"),))
    waits = make_job("job_a", status="pending", limit_keys=(LimitKey("@circuit", "mail"),))
    failing = make_state(failing_since=1)
    fold(desk.api.desk.rows, waits, make_endpoint(), failing)
    browser = await desk.signed_in("viewer")
    html = await browser.page("/console")
    assert '<a class="card needs" href="/console/limits"><b>1</b>tools cut off</a>' in html
    listed = "/console/endpoints?state=failing"
    assert f'<a class="card needs" href="{listed}"><b>1</b>endpoints that fail</a>' in html
    assert "<td>mail</td>" in await browser.page("/console/limits")
    assert ">crm</a>" in await browser.page(listed)


@pytest.mark.parametrize(
    ("call", "shown"), [("/v1/held", "/console/workers"), ("/v1/backlog", "/console/limits")]
)
def test_what_is_counted_leads_to_the_page_that_lists_it(call: str, shown: str) -> None:
    assert page_of(call) == shown


async def test_each_plot_of_the_last_hour_leads_to_what_it_counts(desk: Console) -> None:
    html = await (await desk.signed_in("viewer")).page("/console")
    led = re.findall(r'<figcaption><a href="([^"]*)"', html)
    assert led == ["/console/events", "/console/jobs", "/console/endpoints", "/console/causes"]


@pytest.mark.parametrize("status", ["queued", "running"])
async def test_a_bulk_act_that_goes_on_can_be_paused(
    desk: Console, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    shown = {"bulk_id": "blk_1", "action": "jobs.cancel", "status": status, "count": 2, "ramp": []}
    shown["stop_at_failures"] = None
    browser = await desk.signed_in("operator")
    answers(monkeypatch, {"/v1/bulk/blk_1": shown, "/v1/bulk/blk_1/items": {"items": []}})
    html = await browser.page("/console/bulk/blk_1")
    assert 'value="POST /v1/bulk/blk_1/pause"' in html
    assert 'value="POST /v1/bulk/blk_1/cancel"' in html


async def test_a_recovery_begins_with_what_was_given_up_also_once_something_arrived(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = {"tenant_id": "acme", "endpoint_id": "crm", "enabled": True, "state": {}}
    sent = [
        {"delivery_id": f"dlv_{n}", "status": status, "created_at": f"2026-11-21T0{n}:00:00.000Z"}
        for n, status in ((9, "delivered"), (8, "dead"), (7, "parked"), (6, "delivered"))
    ]
    path = "/v1/tenants/acme/endpoints/crm"
    browser = await desk.signed_in("admin")
    answers(monkeypatch, {path: shown, f"{path}/deliveries": {"deliveries": sent}})
    html = await browser.page("/console/endpoints/acme/crm")
    begun = re.findall(r'name="since" type="text" value="([^"]*)"', html)
    assert begun == ["2026-11-21T07:00:00.000Z"] * 2


async def test_an_attempt_shows_what_came_back(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = {"attempt": 1, "status": 400, "error": "status", "excerpt": "unknown field: tenant"}
    shown = {"delivery_id": "dlv_1", "tenant_id": "acme", "endpoint_id": "crm", "attempts": [tried]}
    browser = await desk.signed_in("viewer")
    answers(monkeypatch, {"/v1/deliveries/dlv_1": shown})
    assert "unknown field: tenant" in await browser.page("/console/deliveries/dlv_1")


async def test_only_whoever_may_read_tokens_is_led_to_them(desk: Console) -> None:
    viewer, admin = await desk.signed_in("viewer"), await desk.signed_in("admin")
    assert 'href="/console/tokens"' not in await viewer.page("/console")
    assert 'href="/console/tokens"' in await admin.page("/console")


@pytest.mark.parametrize("text", ["job_type draft_reply", "job_", "job_a/b", "mail:send"])
def test_what_is_no_id_leads_nowhere(text: str) -> None:
    assert page_of_id(text) is None


def test_an_id_leads_to_its_page() -> None:
    assert page_of_id("evt_01a22aa0-13aa") == "/console/events/evt_01a22aa0-13aa"
    assert page_of_id("job_a") == "/console/jobs/job_a"


def test_a_narrow_screen_has_its_navigation_without_headings() -> None:
    style = (Path(templates.__file__).parent.parent / "static" / "console.css").read_text()
    narrow = style.partition("@media (max-width")[2]
    assert re.search(r"\.sides > nav h2[^{}]*\{ display: none; \}", narrow)


async def test_the_audit_has_its_note_beside_what_was_done(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"principal": "ann", "verb": "dead_letter.replay", "target": "job_a", "note": "again"}
    browser = await desk.signed_in("admin")
    answers(monkeypatch, {"/v1/audit": {"audit": [entry]}})
    html = await browser.page("/console/audit")
    assert re.search(r'<a class="id" href="/console/jobs/job_a">job_a</a><br>again', html)


async def test_a_store_that_is_not_there_holds_up_no_jobs_page(desk: Console) -> None:
    fold(desk.api.desk.rows, make_job("job_a"))
    browser = await desk.signed_in("viewer")
    assert "/console/jobs/job_a/artifacts" in await browser.page("/console/jobs/job_a")
    status, html = await browser.get("/console/jobs/job_a/artifacts")
    assert status >= 400
    assert 'role="alert"' in html


async def test_what_a_job_saved_is_a_link_for_whoever_may_read_it(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, viewer = await desk.signed_in("operator"), await desk.signed_in("viewer")
    saved = {"artifact": "a/../<b>", "name": "report \u202efdp.exe", "size": 1}
    answers(monkeypatch, {"/v1/jobs/job_a/artifacts": {"artifacts": [saved]}})
    html = await operator.page("/console/jobs/job_a/artifacts")
    assert '<a href="/v1/jobs/job_a/artifacts/a%2F..%2F%3Cb%3E">report \\u202efdp.exe</a>' in html
    html = await viewer.page("/console/jobs/job_a/artifacts")
    assert "report" in html
    assert "/artifacts/a" not in html


async def test_a_worker_is_drained_and_resumed_on_its_page(desk: Console) -> None:
    fold(desk.api.desk.rows, make_job("job_a", status="running", worker_id="default-w1/b1"))
    viewer, operator = await desk.signed_in("viewer"), await desk.signed_in("operator")
    assert "/v1/limits/pause" not in await viewer.page("/console/workers")
    html = await operator.page("/console/workers")
    html = html[html.index("<h3") :]  # the form beside the worker knows its name
    status, _ = await operator.act(html, "POST /v1/limits/pause", reason="its node is replaced")
    assert status == 200
    html = await operator.page("/console/workers")
    assert "its node is replaced" in html
    await operator.act(html, "POST /v1/limits/resume")
    assert "its node is replaced" not in await operator.page("/console/workers")

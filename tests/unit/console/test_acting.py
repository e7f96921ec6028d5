"""The one form handler: what it sends, once, and where the browser is then."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
from support.access_desk import BOOTSTRAP_TOKEN
from support.console_desk import Browser, Console, console
from support.folding import fold
from support.operator_cluster import make_job, make_quarantined
from support.webhooks import source, tenant

from streams.console.serving import acting
from streams.console.serving.asked_for import Form
from streams.console.serving.asking import Answer
from streams.serde.records import PayloadRef

CANCEL = "POST /v1/jobs/job_a/cancel"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Console]:
    async with console(tmp_path) as made:
        fold(made.api.desk.rows, make_job("job_a", status="scheduled", scheduled_at=1))
        yield made


def csrf(html: str) -> str:
    return str(re.findall(r'name="csrf" value="([^"]*)"', html)[0])


async def job_page(desk: Console) -> tuple[Browser, str]:
    browser = await desk.signed_in("operator")
    return browser, await browser.page("/console/jobs/job_a")


async def test_a_refused_call_shows_why_and_what_was_typed(desk: Console) -> None:
    browser, html = await job_page(desk)
    desk.api.desk.answer("cmd_1", "not_cancellable", "it has ended")
    status, html = await browser.act(html, CANCEL, reason="typed with <care>")
    assert status == 409
    assert "it has ended" in html
    assert "typed with &lt;care&gt;</textarea>" in html
    assert "Send it again" in html


async def test_a_form_of_another_site_and_one_with_a_wrong_token_are_refused(desk: Console) -> None:
    browser, html = await job_page(desk)
    fields = {"csrf": csrf(html), "call": CANCEL, "back": "/console"}
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        async with browser.session.post(
            browser.url("/console/act"), data=fields, headers=headers
        ) as answer:
            assert answer.status == 403
    status, _ = await browser.post("/console/act", **{**fields, "csrf": "guessed"})
    assert status == 403
    assert desk.api.desk.sent == []


async def test_a_form_names_a_call_of_the_api_and_nothing_else(desk: Console) -> None:
    browser, html = await job_page(desk)
    for call in ("POST /console/sign-out", "POST http://evil.example/v1/", "GARBAGE", "GET /v1/no"):
        status, _ = await browser.post("/console/act", csrf=csrf(html), call=call)
        assert status in (404, 405), call


@pytest.mark.parametrize("where", ["https://evil.example/", "//evil.example", "/\\evil.example"])
async def test_a_form_leads_to_no_other_site(desk: Console, where: str) -> None:
    browser, html = await job_page(desk)
    desk.api.desk.answer("cmd_1")
    fields = {"csrf": csrf(html), "call": CANCEL, "then": where, "back": where}
    async with browser.session.post(
        browser.url("/console/act"), data=fields, allow_redirects=False
    ) as answer:
        assert answer.status == 303
        assert answer.headers["Location"] == "/console"


async def test_what_was_done_is_said_on_the_next_page_alone(desk: Console) -> None:
    browser, html = await job_page(desk)
    desk.api.desk.answer("cmd_1")
    _, html = await browser.act(html, CANCEL)
    assert "Cancel: done." in html
    assert "Cancel: done." not in await browser.page("/console/jobs/job_a")


async def test_a_change_of_a_setting_that_somebody_else_has_changed_is_refused(
    desk: Console,
) -> None:
    browser = await desk.signed_in("admin")
    token = csrf(await browser.page("/console/tenants"))
    call = "PUT /v1/tenants/acme"
    await browser.post("/console/act", csrf=token, call=call, **{":json": "{}"})
    html = await browser.page("/console/tenants/acme")
    assert 'name="tag" value="' in html
    second = await browser.page("/console/tenants/acme")
    changed = {":json": '{"display_name": "Acme"}'}
    status, shown = await browser.act(html, call, **changed)
    assert status == 200, shown
    status, shown = await browser.act(second, call, **changed)
    assert status == 412
    assert "{&#34;display_name&#34;: &#34;Acme&#34;}" in shown


async def test_a_value_that_is_not_what_its_field_asks_for_is_named(desk: Console) -> None:
    browser = await desk.signed_in("admin")
    html = await browser.page("/console/tokens")
    status, shown = await browser.act(
        html, "POST /v1/tokens", name="ci", **{"expires_days:int": "x"}
    )
    assert status == 422
    assert "expires_days: must be a whole number" in shown


async def test_a_secret_is_shown_once_in_the_answer_to_the_form(desk: Console) -> None:
    browser = await desk.browser()
    await browser.enter(BOOTSTRAP_TOKEN)
    html = await browser.page("/console/tokens")
    given = {"name": "ci", "role": "viewer", "tenants:list": "*", "expires_days:int": "30"}
    status, shown = await browser.act(html, "POST /v1/tokens", **given)
    assert status == 200, shown
    assert "tg_" in shown
    assert "tg_" not in await browser.page("/console/tokens")


async def test_a_mapping_that_was_tried_can_be_saved_or_changed_on_the_page_of_its_answer(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def made(*_: object) -> Answer:
        return Answer({"fits": True, "event": {"event_type": "paid"}}, {})

    body = make_quarantined(b"{}", PayloadRef(0, (0,), 2, "kek"))
    fold(desk.api.desk.rows, body)
    kept = tenant(body.tenant_id), source(body.tenant_id, body.source, "stripe")
    desk.api.desk.project([("tenants", *each) for each in kept])
    browser = await desk.signed_in("admin")
    page = f"/console/quarantine/{body.event_id}"
    html = await browser.page(page)
    call = f"POST /v1/quarantine/{body.event_id}/preview"
    with monkeypatch.context() as patched:
        patched.setattr(acting, "_made", made)
        status, html = await browser.act(html, call, **{"mapping:json": '{"dedup_key": "nr"}'})
    assert status == 200, html
    assert "Nothing was changed" in html
    assert html.count("{&#34;dedup_key&#34;: &#34;nr&#34;}</textarea>") == 2
    put = f"PUT /v1/tenants/{body.tenant_id}/sources/{body.source}"
    status, html = await browser.act(html, put, **{"mapping:json": '{"dedup_key": "nr"}'})
    assert (status, "Save the mapping: done." in html) == (200, True)
    assert "secret" not in html


async def test_a_link_fills_no_form_that_changes_something(desk: Console) -> None:
    body = make_quarantined(b"{}", PayloadRef(0, (0,), 2, "kek"))
    fold(desk.api.desk.rows, body)
    desk.api.desk.project([("tenants", *source(body.tenant_id, body.source, "stripe"))])
    browser = await desk.signed_in("admin")
    page = f"/console/quarantine/{body.event_id}"
    html = await browser.page(f"{page}?mapping:json=" + quote('{"event_type": "of_a_link"}'))
    assert "of_a_link&#34;" not in html


@pytest.mark.parametrize("show", ["edit", "mapping", "test", "preview", "once", "none"])
async def test_a_form_that_names_the_page_of_another_answer_breaks_nothing(
    desk: Console, show: str
) -> None:
    browser, html = await job_page(desk)
    desk.api.desk.answer("cmd_1")
    fields = {"csrf": csrf(html), "call": CANCEL, "show": show, "back": "/console/jobs"}
    status, shown = await browser.post("/console/act", **fields)
    assert status == 200, shown
    assert 'href="/console/jobs"' in shown


async def test_what_was_previewed_is_carried_out_by_the_same_form_without_its_dry_run(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[bytes] = []

    async def made(_: object, form: Form) -> Answer:
        sent.append(form.body())
        return Answer({"matched": 3}, {})

    browser, html = await job_page(desk)
    monkeypatch.setattr(acting, "_made", made)
    call = "POST /v1/tenants/acme/endpoints/crm/recover"
    fields = {"csrf": csrf(html), "call": call, "show": "preview", "said": "Preview a recovery"}
    _, shown = await browser.post("/console/act", **fields, since="1h", **{"dry_run:bool": "on"})
    assert "Nothing was changed" in shown
    _, shown = await browser.act(shown, call, since="2h")
    assert "Preview a recovery, carried out: done." in shown
    assert sent == [b'{"since":"1h","dry_run":true}', b'{"since":"2h"}']

"""The one form handler: what it sends, once, and where the browser is then."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path

import pytest
from support.access_desk import BOOTSTRAP_TOKEN
from support.console_desk import Browser, Console, console
from support.folding import fold
from support.operator_cluster import make_job, make_quarantined

from streams.console.serving import acting
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


async def test_a_preview_says_that_nothing_changed_and_leads_back_with_what_was_typed(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def made(*_: object) -> Answer:
        return Answer({"fits": True}, {})

    body = make_quarantined(b"{}", PayloadRef(0, (0,), 2, "kek"))
    fold(desk.api.desk.rows, body)
    browser = await desk.signed_in("admin")
    page = f"/console/quarantine/{body.event_id}"
    html = await browser.page(page)
    monkeypatch.setattr(acting, "_made", made)
    call = f"POST /v1/quarantine/{body.event_id}/preview"
    status, html = await browser.act(html, call, **{"mapping:json": '{"dedup_key": "nr"}'})
    assert status == 200, html
    assert "Nothing was changed" in html
    assert "secret" not in html
    back = unescape(re.findall(r'<a href="([^"]*)">Back to the page', html)[0])
    assert "{&#34;dedup_key&#34;: &#34;nr&#34;}</textarea>" in await browser.page(back)


async def test_what_was_typed_goes_into_no_path_that_a_server_refuses() -> None:
    back = acting._with_typed("/console/x?a=1", {"mapping:json": "m" * 5_000})
    assert back == "/console/x?a=1"
    assert acting._with_typed("/console/x?a=1", {"b": "ü"}) == "/console/x?a=1&b=%C3%BC"

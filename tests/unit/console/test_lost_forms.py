"""What somebody has typed and sent is carried out once, or is still there to be sent again."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from support.console_desk import Browser, Console, console
from support.folding import fold
from support.operator_cluster import make_job, make_letter

from streams.console.serving import acting, answers
from streams.console.serving.asking import Answer
from streams.errors import KafkaUnavailable
from streams.process.wall_clock import wall_ms

CANCEL = "POST /v1/jobs/job_a/cancel"
TYPED = "می\u200cخواهم <b>"
"""A note in Persian, whose words need a character that is not seen."""


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Console]:
    async with console(tmp_path) as made:
        fold(made.api.desk.rows, make_job("job_a", status="scheduled", scheduled_at=1))
        yield made


def fields_of(html: str) -> dict[str, str]:
    """The fields of the form that sends something again, as a browser sends them."""
    form = html.partition('<form method="post" action="/console/act"')[2].partition("</form>")[0]
    hidden = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', form)
    typed = re.findall(r'<textarea name="([^"]*)"[^>]*>(.*?)</textarea>', form, re.S)
    return {name: unescape(value) for name, value in [*hidden, *typed]}


async def sent(browser: Browser, headers: dict[str, str], **fields: str) -> tuple[int, str]:
    path = browser.url("/console/act")
    async with browser.session.post(path, data=fields, headers=headers) as answer:
        return answer.status, await answer.text()


async def test_a_note_is_sent_again_as_it_was_typed(desk: Console) -> None:
    browser = await desk.signed_in("operator")
    html = await browser.page("/console/jobs/job_a")
    desk.api.desk.answer("cmd_1", "not_cancellable", "it has ended")
    _, shown = await browser.act(html, CANCEL, reason=TYPED)
    assert fields_of(shown)["reason"] == TYPED


@pytest.mark.parametrize("how", ["session over", "signed in anew"])
async def test_what_was_typed_is_shown_when_the_session_has_ended_meanwhile(
    desk: Console, how: str
) -> None:
    browser = await desk.signed_in("operator")
    html = await browser.page("/console/jobs/job_a")
    fields = {**fields_of(html), "call": CANCEL, "reason": TYPED}
    if how == "session over":
        desk.api.office.now = lambda: wall_ms() + 2 * 3_600_000
    else:
        await browser.enter(desk.api.office.token("operator", None))
    status, shown = await sent(browser, {"Origin": desk.origin}, **fields)
    assert status in (401, 403)
    assert "می\u200cخواهم &lt;b&gt;</textarea>" in shown
    assert "X-CSRF-Token" not in shown
    if how == "signed in anew":
        desk.api.desk.answer("cmd_1")
        status, shown = await browser.post("/console/act", **fields_of(shown))
        assert (status, "Cancel: done." in shown) == (200, True)
        assert len(desk.api.desk.sent) == 1


@pytest.mark.parametrize(
    "headers", [{}, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "same-site"}]
)
@pytest.mark.parametrize("is_known", [False, True])
async def test_another_site_has_nothing_shown_here_and_gets_no_form(
    desk: Console, headers: dict[str, str], is_known: bool
) -> None:
    browser = await (desk.signed_in("operator") if is_known else desk.browser())
    fields = {"call": CANCEL, "csrf": "guessed", "reason": "Call 555", "said": "Call 556"}
    status, shown = await sent(browser, headers, **fields, back="/console/jobs?type=Call+557")
    assert status in (401, 403)
    assert "Call" not in shown
    assert 'action="/console/act"' not in shown


async def test_a_form_that_is_too_large_is_refused_on_a_page(desk: Console) -> None:
    browser = await desk.signed_in("operator")
    many = "&".join(f"a{each}" for each in range(1_000))
    for body in ("reason=" + "a" * 3_000_000, many):
        for path in ("/console/act", "/console/sign-in", "/console/sign-out"):
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            async with browser.session.post(
                browser.url(path), data=body.encode(), headers=kind
            ) as answer:
                assert (answer.status, "<h1>" in await answer.text()) == (413, True)


async def test_a_bug_is_told_on_a_page_with_what_was_typed(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any, **__: Any) -> Any:
        raise AssertionError("a bug")

    browser = await desk.signed_in("operator")
    html = await browser.page("/console/jobs/job_a")
    monkeypatch.setattr(type(desk.api.desk), "command", fails)
    fields = {**fields_of(html), "call": CANCEL, "key": "idem_1", "reason": TYPED}
    status, shown = await browser.post("/console/act", **fields)
    assert status == 500
    assert "a bug" not in shown
    assert fields_of(shown)["reason"] == TYPED
    assert fields_of(shown)["key"] == "idem_1"


async def test_an_act_that_is_not_decided_yet_leads_to_a_page_that_is_there(
    desk: Console,
) -> None:
    died = make_job("job_b", status="failed")
    fold(desk.api.desk.rows, died, make_letter(died))
    browser = await desk.signed_in("operator")
    html = await browser.page("/console/dlq/job_b")
    status, shown = await browser.act(html, "POST /v1/dlq/job_b/replay", incident_note="fixed")
    assert status == 200, shown
    assert "not decided yet" in shown
    assert 'hx-sse:connect="/console/changes?of=dlq,jobs' in shown


async def test_what_was_done_is_kept_for_a_page_that_somebody_looks_at(desk: Console) -> None:
    browser = await desk.signed_in("operator")
    html = await browser.page("/console/jobs/job_a")
    desk.api.desk.answer("cmd_1")
    fields = {**fields_of(html), "call": CANCEL}
    async with browser.session.post(
        browser.url("/console/act"), data=fields, allow_redirects=False
    ) as answer:
        assert answer.status == 303
    await browser.page("/console/jobs", headers={"HX-Request": "true"})  # of another tab
    assert "Cancel: done." in await browser.page("/console/jobs/job_a")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bulk_id": "blk_1", "status": "queued"}, "begun"),
        ({"status": "running", "cancel_requested": True}, "asked for"),
        ({"status": "cancelled", "cancel_requested": True}, "done"),
    ],
)
async def test_what_has_only_begun_is_not_called_done(
    desk: Console, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], said: str
) -> None:
    async def made(*_: object) -> Answer:
        return Answer(given, {})

    browser = await desk.signed_in("operator")
    html = await browser.page("/console/jobs/job_a")
    monkeypatch.setattr(acting, "_made", made)
    _, shown = await browser.act(html, CANCEL)
    assert f"Cancel: {said}" in shown


async def test_a_call_that_is_done_is_told_so_though_the_page_of_its_answer_fails(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> Any:
        raise AssertionError("a bug")

    browser = await desk.signed_in("operator")
    html = await browser.page("/console/jobs/job_a")
    desk.api.desk.answer("cmd_1")
    monkeypatch.setattr(answers, "shown", fails)
    fields = {**fields_of(html), "call": CANCEL, "show": "once"}
    status, shown = await browser.post("/console/act", **fields)
    assert (status, "Cancel: done." in shown) == (200, True)


async def test_a_call_that_may_have_been_carried_out_is_not_called_undone(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> Any:
        raise KafkaUnavailable("away")

    browser = await desk.signed_in("operator")
    html = await browser.page("/console/jobs/job_a")
    monkeypatch.setattr(type(desk.api.desk), "command", away)
    _, shown = await browser.act(html, CANCEL)
    assert "<h1>Nobody knows whether it was done</h1>" in shown

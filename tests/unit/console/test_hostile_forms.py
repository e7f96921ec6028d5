"""Forms that no page made: of other sites, of curious people, and of programs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.console_desk import Browser, Console, console
from support.job_rows import fold
from support.operator_cluster import make_job

from streams.errors import KafkaUnavailable

CANCEL = "POST /v1/jobs/job_a/cancel"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Console]:
    async with console(tmp_path) as made:
        fold(made.api.desk.rows, make_job("job_a", status="scheduled", scheduled_at=1))
        yield made


def csrf(html: str) -> str:
    return str(re.findall(r'name="csrf" value="([^"]*)"', html)[0])


async def job_page(desk: Console, role: str = "operator") -> tuple[Browser, str]:
    browser = await desk.signed_in(role)
    return browser, await browser.page("/console/jobs/job_a")


def value_of(html: str, name: str) -> str:
    return str(re.findall(rf'name="{name}" value="([^"]*)"', html)[0])


@pytest.mark.parametrize(
    "fields",
    [
        {"a": "1", "a.b": "2"},
        {"a.b": "1", "a.b.c.d": "2"},
        {"a:int": "1" * 40},
        {"a:json": "9" * 40},
        {"a:number": "nan"},
        {"a:json": "[" * 300 + "]" * 300},
        {"a:json": "[" * 5_000},
        {".".join("a" * 600): "1"},
    ],
)
async def test_fields_that_make_no_json_are_refused(desk: Console, fields: dict[str, str]) -> None:
    browser, html = await job_page(desk)
    status, shown = await browser.post("/console/act", csrf=csrf(html), call=CANCEL, **fields)
    assert status == 422, shown
    assert "It was not done" in shown


@pytest.mark.parametrize("path", ["/console/act", "/console/sign-in", "/console/sign-out"])
@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("application/x-www-form-urlencoded; charset=nope", b"a=b", 400),
        ("application/x-www-form-urlencoded", b"\xff=\xfe", 400),
        ("multipart/form-data", b"x", 415),
        ("multipart/form-data; boundary=x", b"--x\r\nbad", 415),
        ("application/json", b"{}", 415),
    ],
)
async def test_what_is_no_form_is_refused(
    desk: Console, path: str, encoding: str, body: bytes, status: int
) -> None:
    browser, _ = await job_page(desk)
    async with browser.session.post(
        browser.url(path), data=body, headers={"Content-Type": encoding}
    ) as answer:
        assert answer.status == status


@pytest.mark.parametrize("call", ["GET /v1/jobs/job_a", "HEAD /v1/jobs/job_a", "GET /v1/stream"])
async def test_a_form_only_changes_things(desk: Console, call: str) -> None:
    browser, html = await job_page(desk)
    status, _ = await browser.post("/console/act", csrf=csrf(html), call=call)
    assert status == 404


@pytest.mark.parametrize(
    ("then", "where"),
    [
        ("/console/{seconds}", "/console/120"),
        ("/console/{none}", "/console"),
        ("/console/{seconds:>99999999}", "/console/{seconds:>99999999}"),
        ("/console/{seconds.real.imag}", "/console/{seconds.real.imag}"),
        ("/console/{path}", "/console/%2Fconsole%2Fenter%3Flink%3D"),
    ],
)
async def test_a_path_to_go_to_takes_members_and_no_formats(
    desk: Console, then: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.api.session.http.SESSION", "none of this request")
    monkeypatch.setattr("streams.api.session.http.new_link", lambda *_: "/console/enter?link=")
    browser, html = await job_page(desk)
    fields = {"csrf": csrf(html), "call": "POST /v1/session/links", "then": then}
    async with browser.session.post(
        browser.url("/console/act"), data=fields, allow_redirects=False
    ) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, where)


async def test_a_session_makes_no_link_to_another_one(desk: Console) -> None:
    browser, html = await job_page(desk)
    call, token = "POST /v1/session/links", csrf(html)
    status, shown = await browser.post("/console/act", csrf=token, call=call, show="yes")
    assert (status, "link=" in shown) == (409, False)
    async with browser.session.post(
        browser.url("/v1/session/links"), json={}, headers={"X-CSRF-Token": token}
    ) as answer:
        assert answer.status == 409


@pytest.mark.parametrize("back", ["javascript:alert(1)", "https://evil.example/", "//evil.example"])
async def test_a_form_of_another_site_names_no_page_to_go_back_to(desk: Console, back: str) -> None:
    browser = await desk.browser()
    status, html = await browser.post("/console/act", call="x", back=back)
    assert status == 401
    assert '<a href="/console">Back to the page</a>' in html


async def test_nothing_is_sent_while_rows_are_missing(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, html = await job_page(desk)
    monkeypatch.setattr(desk.api.desk, "ready", lambda: False)
    status, _ = await browser.post("/console/act", csrf=csrf(html), call=CANCEL)
    assert status == 503
    assert desk.api.desk.sent == []


async def test_a_form_that_nobody_answered_is_sent_again_as_the_same_command(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any, **__: Any) -> Any:
        raise KafkaUnavailable("away")

    browser, html = await job_page(desk)
    monkeypatch.setattr(type(desk.api.desk), "command", away)
    fields = {"csrf": csrf(html), "call": CANCEL, "key": "idem_1", "tag": '"1f"'}
    status, shown = await browser.post("/console/act", **fields)
    assert status == 503
    assert value_of(shown, "key") == "idem_1"
    assert value_of(shown, "tag") == "&#34;1f&#34;"


async def test_a_refused_page_does_not_show_a_secret(desk: Console) -> None:
    browser = await desk.signed_in("admin")
    token = csrf(await browser.page("/console/tenants"))
    fields = {"secret": "whsec_typed", "overlap_seconds:number": "x"}
    call = "POST /v1/tenants/acme/sources/github/rotate"
    status, shown = await browser.post("/console/act", csrf=token, call=call, **fields)
    assert status == 422
    assert "whsec_typed" not in shown
    assert '<input name="secret" type="password" value=""' in shown


async def test_a_link_that_another_site_leads_to_opens_no_session(desk: Console) -> None:
    token = desk.api.office.token("viewer", None)
    _, made = await desk.api.ask(token, "POST", "/v1/session/links", {})
    browser = await desk.browser()
    led = {"Sec-Fetch-Site": "cross-site"}
    status, _ = await browser.get(made["path"], headers=led)
    assert status == 403
    assert "<h1>Jobs</h1>" in await browser.page(made["path"] + "&next=/console/jobs")

"""Pages under odd addresses and of odd rows, and what their buttons then send."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.console_desk import Console, console
from support.job_rows import fold
from support.operator_cluster import make_job

from streams.api.serving.session import DESK
from streams.process.wall_clock import wall_ms


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Console]:
    async with console(tmp_path) as made:
        fold(made.api.desk.rows, make_job("job_a", status="scheduled", scheduled_at=1))
        yield made


@pytest.mark.parametrize("path", ["jobs", "bulk", "limits", "events"])
@pytest.mark.parametrize("name", ["path", "self", "asked", "request"])
async def test_a_query_of_any_name_is_the_calls(desk: Console, path: str, name: str) -> None:
    status, html = await (await desk.signed_in("viewer")).get(f"/console/{path}?{name}=x")
    assert status == 422, html
    assert f"{name}: is no parameter" in html


@pytest.mark.parametrize("rest", ["%2Fevents", "%2Fartifacts", "%3Fx=1", "%23x", "%2F..%2Fjob_a"])
async def test_an_address_of_a_page_leads_to_no_other_call(desk: Console, rest: str) -> None:
    status, html = await (await desk.signed_in("viewer")).get(f"/console/jobs/job_a{rest}")
    assert status == 404
    assert "no job" in html


@pytest.mark.parametrize("of", ["discarded", "manual"])
async def test_no_button_replays_others_than_a_list_shows(desk: Console, of: str) -> None:
    browser = await desk.signed_in("operator")
    assert "dead_letters.replay" in await browser.page("/console/dlq")
    assert "dead_letters.replay" not in await browser.page(f"/console/dlq?{of}=true")


async def test_a_page_that_refreshes_itself_is_no_use_of_its_session(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = await desk.signed_in("viewer")
    later = wall_ms() + 20 * 60_000
    monkeypatch.setattr(desk.app[DESK].people, "_now", lambda: later)
    for headers, kept in (({"HX-Request": "true"}, False), ({}, True)):
        path = browser.url("/console/jobs/job_a")
        async with browser.session.get(path, headers=headers) as answer:
            assert answer.status == 200
            assert ("__Host-tidegate" in answer.cookies) is kept


async def test_an_open_page_goes_to_the_sign_in_once_its_session_is_over(desk: Console) -> None:
    path = "/console/jobs/job_a"
    browser = await desk.browser()
    async with browser.session.get(browser.url(path), headers={"HX-Request": "true"}) as answer:
        assert answer.status == 401
        assert answer.headers["HX-Redirect"] == f"/console/sign-in?next={path}"


async def test_an_open_page_keeps_what_it_shows_while_the_operator_answers_errors(
    desk: Console,
) -> None:
    html = await (await desk.signed_in("viewer")).page("/console/jobs/job_a")
    config = re.findall(r"name=\"htmx-config\" content='([^']*)'", html)[0]
    assert {"4xx", "5xx"} <= set(json.loads(config)["noSwap"])


async def test_no_session_and_no_link_ends_because_the_operator_is_starting(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, other = await desk.signed_in("viewer"), await desk.browser()
    token = desk.api.office.token("viewer", None)
    _, made = await desk.api.ask(token, "POST", "/v1/session/links", {})
    with monkeypatch.context() as starting:
        desk.api.is_known = False
        starting.setattr(desk.api.desk, "ready", lambda: False)
        starting.setattr(desk.api.office.book, "grant", lambda _: None)
        assert (await browser.get("/console/jobs"))[0] == 503
        assert (await browser.get("/console/changes?of=jobs"))[0] == 503
        assert (await other.get(made["path"]))[0] == 503
        assert (await other.enter(token))[0] == 503
    desk.api.is_known = True
    assert "<h1>Jobs</h1>" in await browser.page("/console/jobs")
    assert "<h1>Jobs</h1>" in await other.page(made["path"] + "&next=/console/jobs")


async def test_a_form_that_enables_a_disabled_tenant_says_so(desk: Console) -> None:
    browser = await desk.signed_in("admin")
    call, fields = "PUT /v1/tenants/acme", {":json": "{}"}
    token = re.findall(r'name="csrf" value="([^"]*)"', await browser.page("/console/tenants"))[0]
    await browser.post("/console/act", csrf=token, call=call, **fields)
    for enables, act in ((False, "DELETE"), (True, "PUT"), (False, "DELETE")):
        html = await browser.page("/console/tenants/acme")
        assert ("and enable it" in html) is enables
        status, html = await browser.act(html, f"{act} /v1/tenants/acme", **fields)
        assert status == 200, html


async def test_steps_that_diverged_are_named_a_line_each(desk: Console) -> None:
    fold(desk.api.desk.rows, make_job("job_c", status="needs_review", diverged="charge <card>"))
    html = await (await desk.signed_in("admin")).page("/console/jobs/job_c")
    assert '<textarea name="keep:list"' in html
    assert ">charge &lt;card&gt;</textarea>" in html

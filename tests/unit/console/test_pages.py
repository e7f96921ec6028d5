"""Pages as a browser without scripts sees them: sign-in, what is shown, and forms."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.console_desk import Console, console
from support.folding import fold
from support.operator_cluster import make_event, make_job


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

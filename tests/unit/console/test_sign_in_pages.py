"""Sign-in with a token or a link, and the headers and files of pages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.console_desk import Console, console

from streams.console.serving import files

STATIC = Path(files.__file__).parent.parent / "static"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Console]:
    async with console(tmp_path) as made:
        yield made


async def test_a_wrong_token_opens_nothing_and_many_are_throttled(desk: Console) -> None:
    browser = await desk.browser()
    status, html = await browser.enter("not-a-token")
    assert status == 401
    assert "not-a-token" not in html
    seen = {(await browser.enter(f"wrong-{each}"))[0] for each in range(40)}
    assert 429 in seen


async def test_a_session_ends_with_its_token(desk: Console) -> None:
    text = desk.api.office.token("viewer", None)
    browser = await desk.browser()
    await browser.enter(text)
    assert "<h1>Jobs</h1>" in await browser.page("/console/jobs")
    desk.api.office.now = lambda: 2**62
    assert "<h1>Sign in</h1>" in await browser.page("/console/jobs")


async def test_whoever_signs_out_is_out_also_with_the_old_cookie(desk: Console) -> None:
    browser = await desk.signed_in("viewer")
    html = await browser.page("/console/jobs")
    kept = {each.key: each.value for each in browser.session.cookie_jar}
    token = re.findall(r'name="csrf" value="([^"]*)"', html)[0]
    status, html = await browser.post("/console/sign-out", csrf=token)
    assert (status, "<h1>Sign in</h1>" in html) == (200, True)
    other = await desk.browser()
    name = "__Host-tidegate"
    html = await other.page("/console/jobs", headers={"Cookie": f"{name}={kept[name]}"})
    assert "<h1>Sign in</h1>" in html


async def test_a_link_opens_one_session_with_the_rights_of_its_token(desk: Console) -> None:
    token = desk.api.office.token("viewer", None)
    status, made = await desk.api.ask(token, "POST", "/v1/session/links", {})
    assert status == 200
    browser, other = await desk.browser(), await desk.browser()
    html = await browser.page(made["path"] + "&next=/console/jobs")
    assert "<h1>Jobs</h1>" in html
    assert '<span class="beside">viewer</span>' in html
    status, html = await other.get(made["path"])
    assert status == 401
    assert token not in made["path"]


@pytest.mark.parametrize("link", ["", "x", "a" * 5_000, "%00", "%C3%A9"])
async def test_what_is_no_link_opens_nothing(desk: Console, link: str) -> None:
    status, _ = await (await desk.browser()).get(f"/console/enter?link={link}")
    assert status == 401


async def test_a_sign_in_of_another_site_is_refused(desk: Console) -> None:
    browser = await desk.browser()
    token = desk.api.office.token("viewer", None)
    async with browser.session.post(
        browser.url("/console/sign-in"),
        data={"token": token},
        headers={"Origin": "https://evil.example"},
    ) as answer:
        assert answer.status == 403
        assert not answer.cookies


@pytest.mark.parametrize("path", ["/console/jobs", "/console/jobs/none", "/console/sign-in"])
async def test_a_page_runs_nothing_that_is_not_its_own(desk: Console, path: str) -> None:
    browser = await desk.signed_in("viewer")
    async with browser.session.get(browser.url(path)) as answer:
        policy, html = answer.headers["Content-Security-Policy"], await answer.text()
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy
    nonce = re.findall(r"script-src 'nonce-([\w-]+)'; ", policy)[0]  # no file of the site, either
    assert set(re.findall(r"<script([^>]*) src=", html)) == {f' nonce="{nonce}"'}
    assert answer.headers["Cache-Control"] == "no-store"
    assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=|javascript:", html)


async def test_a_page_that_is_not_there_is_a_page(desk: Console) -> None:
    status, html = await (await desk.signed_in("viewer")).get("/console/nowhere")
    assert status == 404
    assert "There is no page at /console/nowhere." in html


async def test_files_are_kept_for_ever_under_names_of_what_is_in_them(desk: Console) -> None:
    browser = await desk.browser()
    for name in files.known():
        async with browser.session.get(browser.url(files.url(name))) as answer:
            assert answer.status == 200
            assert "immutable" in answer.headers["Cache-Control"]
    assert (await browser.get("/console/static/000000000000/console.js"))[0] == 404
    assert (await browser.get("/console/static/x/../../page.py"))[0] == 404


def test_what_others_made_is_as_it_was_checked() -> None:
    vendor = STATIC / "vendor"
    lines = (vendor / "checksums").read_text().splitlines()[1:]
    told = {name: digest for digest, name in (line.split() for line in lines)}
    assert told == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in vendor.iterdir()
        if path.suffix in (".js", ".css")
    }

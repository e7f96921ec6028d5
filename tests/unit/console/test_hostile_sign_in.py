"""Sign-ins and sign-outs that go wrong, or that somebody else wants."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.console_desk import Browser, Console, console

from streams.errors import KafkaUnavailable
from streams.process.wall_clock import wall_ms

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Console]:
    async with console(tmp_path) as made:
        yield made


async def link(desk: Console, role: str = "viewer") -> str:
    token = desk.api.office.token(role, None)
    _, made = await desk.api.ask(token, "POST", "/v1/session/links", {})
    return str(made["path"])


async def sign_out(browser: Browser, html: str) -> tuple[int, str]:
    token = re.findall(r'name="csrf" value="([^"]*)"', html)[0]
    return await browser.post("/console/sign-out", csrf=token)


async def test_a_used_link_opens_nothing_however_it_is_written(desk: Console) -> None:
    path = await link(desk)
    assert (await (await desk.browser()).get(path))[0] == 200
    others = [path + "=", path + "==", *(path[:-1] + letter for letter in LETTERS)]
    for each in others:
        assert (await (await desk.browser()).get(each))[0] == 401, each


@pytest.mark.parametrize("way", ["/console/enter", "/console/%65nter", "/console/./enter"])
async def test_no_sign_in_goes_on_to_the_link_of_somebody_else(desk: Console, way: str) -> None:
    theirs = (await link(desk, "admin")).replace("/console/enter", way)
    browser = await desk.browser()
    own = desk.api.office.token("viewer", None)
    fields = {"token": own, "next": theirs}
    led = {"Sec-Fetch-Site": "same-origin"}
    async with browser.session.post(
        browser.url("/console/sign-in"), data=fields, headers=led
    ) as answer:
        assert "admin" not in await answer.text()
    assert '<span class="beside">viewer</span>' in await browser.page("/console/jobs")


async def test_whoever_signs_out_of_a_session_that_is_over_comes_to_the_sign_in(
    desk: Console,
) -> None:
    browser = await desk.signed_in("viewer")
    html = await browser.page("/console/jobs")
    desk.api.office.now = lambda: wall_ms() + 2 * 3_600_000
    status, html = await sign_out(browser, html)
    assert (status, "<h1>Sign in</h1>" in html) == (200, True)


async def test_a_sign_out_that_is_refused_says_so_on_a_page(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = await desk.signed_in("viewer")
    html = await browser.page("/console/jobs")
    status, shown = await browser.post("/console/sign-out", csrf="guessed")
    assert (status, "<h1>" in shown) == (403, True)

    async def away(*_: Any) -> Any:
        raise KafkaUnavailable("away")

    monkeypatch.setattr(type(desk.api.desk), "set_tenant", away)
    status, shown = await sign_out(browser, html)
    assert (status, "<h1>" in shown) == (503, True)
    assert "/console/sign-out" not in re.findall(r'href="([^"]*)"', shown)


async def test_a_sign_in_that_the_audit_cannot_take_says_so_on_a_page(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any) -> Any:
        raise KafkaUnavailable("away")

    path = await link(desk)
    monkeypatch.setattr(type(desk.api.desk), "audited", away)
    browser = await desk.browser()
    for status, shown in (
        await browser.enter(desk.api.office.token("viewer", None)),
        await browser.get(path),
    ):
        assert (status, "<h1>" in shown) == (503, True)
        assert "Kafka" in shown

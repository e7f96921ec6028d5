"""An open page in a real browser, without Kafka: it never shows what is old as new."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from support.chromium import chromium, need_chromium
from support.console_desk import Console, console
from support.console_walk import Person
from support.folding import fold
from support.operator_cluster import make_job

from streams.api.read_model.fold_session import Lag
from streams.process.wall_clock import wall_ms

PAGE = "/console/jobs/job_a"


class Desk:
    """A console, and how far its topics were read; it can be made to fail."""

    def __init__(self, console: Console) -> None:
        self.console, self.at, self.status = console, 1, 200
        self.refused = ("/console/changes",)
        self.streams: list[asyncio.Transport] = []
        self.lag: Lag | None = None
        console.api.desk.follower = self

    def job(self, **fields: Any) -> None:
        """Write the job of the page, which its readers hear of."""
        given = {"status": "scheduled", "scheduled_at": 1, **fields}
        fold(self.console.api.desk.rows, make_job("job_a", **given))
        self.at += 1

    def folded(self, _: Any) -> int:
        """How far each topic was read."""
        return self.at

    async def answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer with `status` what is asked below a path that is `refused`."""
        if self.status != 200 and request.path.startswith(self.refused):
            return web.Response(status=self.status)
        if request.path == "/console/changes" and request.transport is not None:
            self.streams.append(request.transport)
        return await handler(request)

    def drop_streams(self) -> None:
        """Break the connections of all streams, as a process that is killed does."""
        for each in self.streams:
            each.abort()

    async def sign_in(self, browser: Chrome, role: str = "operator") -> Person:
        person = Person(browser, self.console.origin)
        await asyncio.to_thread(person.sign_in, self.console.api.office.token(role, None))
        return person


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    need_chromium()
    made: list[Desk] = []

    @web.middleware
    async def faults(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await made[0].answer(request, handler)

    async with console(tmp_path, faults) as found:
        made.append(Desk(found))
        made[0].job()
        yield made[0]


@pytest.fixture
def browser() -> Iterator[Chrome]:
    need_chromium()
    with chromium() as made:
        yield made


async def seen(person: Person, *texts: str) -> None:
    """Return once the head of the page says why what is shown may be old."""
    for text in texts:
        await asyncio.to_thread(person.sees, text)


async def reached(condition: Callable[[], Any], what: str) -> None:
    def holds() -> bool:
        return bool(condition())

    person = Person.__new__(Person)
    await asyncio.to_thread(Person.waits, person, holds, what)


async def opened(person: Person) -> None:
    await asyncio.to_thread(person.open, PAGE)


def old(browser: Chrome) -> str:
    return browser.find_element(By.ID, "stale").text


async def test_a_page_that_lost_the_operator_says_since_when(desk: Desk, browser: Chrome) -> None:
    person = await desk.sign_in(browser)
    await opened(person)
    desk.status = 503
    desk.drop_streams()
    await seen(person, "No connection to the operator since")
    desk.status = 200
    await reached(lambda: old(browser) == "", "the connection is back")


async def test_a_page_whose_stream_was_refused_asks_for_it_again(
    desk: Desk, browser: Chrome
) -> None:
    person = await desk.sign_in(browser)
    desk.status = 503
    await opened(person)
    await seen(person, "No connection to the operator since")
    desk.status = 200
    await reached(lambda: old(browser) == "", "the connection is there")
    desk.job(status="cancelled")
    await reached(lambda: "cancelled" in person.heading, "the page is new")


async def test_a_page_that_cannot_be_fetched_is_fetched_again(desk: Desk, browser: Chrome) -> None:
    person = await desk.sign_in(browser)
    await opened(person)
    desk.status, desk.refused = 503, (PAGE,)
    desk.job(status="cancelled")
    await seen(person, "could not make this page anew")
    desk.status = 200
    await reached(lambda: "cancelled" in person.heading, "the page is new")
    assert old(browser) == ""


async def test_a_page_says_that_it_has_changed_while_a_form_is_open(
    desk: Desk, browser: Chrome
) -> None:
    person = await desk.sign_in(browser)
    await opened(person)
    await asyncio.to_thread(person.unfold, "Cancel")
    desk.job(status="cancelled")
    await seen(person, "This has changed meanwhile")
    await asyncio.to_thread(person.unfold, "Cancel")
    await reached(lambda: "cancelled" in person.heading, "the page is new")
    assert old(browser) == ""


async def test_a_page_of_rows_that_are_old_says_so(desk: Desk, browser: Chrome) -> None:
    person = await desk.sign_in(browser)
    await opened(person)
    assert old(browser) == ""
    desk.lag = Lag(0, 0.0, wall_ms() - 60_000)
    await seen(person, "the operator does not hear from Kafka, or is behind")
    await opened(person)
    assert "s old or more: the operator does not hear from Kafka" in old(browser)
    desk.lag = Lag(0, 0.0, wall_ms() + 60_000)
    await reached(lambda: old(browser) == "", "it is new again")


async def test_a_session_that_ends_leads_an_open_page_to_the_sign_in(
    desk: Desk, browser: Chrome
) -> None:
    person = await desk.sign_in(browser)
    await opened(person)
    desk.console.api.office.now = lambda: wall_ms() + 2 * 3_600_000
    await reached(lambda: person.heading == "Sign in", "it is the sign-in")


async def test_a_session_that_ends_takes_no_open_form_away(desk: Desk, browser: Chrome) -> None:
    person = await desk.sign_in(browser)
    await opened(person)
    await asyncio.to_thread(person.unfold, "Cancel")
    desk.console.api.office.now = lambda: wall_ms() + 2 * 3_600_000
    await seen(person, "Your session is over")
    assert "scheduled" in person.heading


async def test_a_form_that_was_sent_is_not_made_anew_before_its_answer(
    desk: Desk, browser: Chrome
) -> None:
    person = await desk.sign_in(browser)
    await opened(person)
    browser.execute_script("window.addEventListener('submit', (event) => event.preventDefault())")
    form = 'form[action="/console/act"]'
    key = person.element(f'{form} [name="key"]').get_attribute("value")
    browser.execute_script(f"document.querySelector('{form}').requestSubmit()")
    desk.job()
    await seen(person, "This has changed meanwhile")
    assert person.element(f"{form} button").get_attribute("disabled") is not None
    assert person.element(f'{form} [name="key"]').get_attribute("value") == key

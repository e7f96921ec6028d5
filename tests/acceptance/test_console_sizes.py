"""Pages of the console in a real browser, over rows that are long or very many; without Kafka."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from selenium.webdriver.common.by import By
from support.chromium import chromium, need_chromium
from support.console_desk import Console, console
from support.console_walk import Person
from support.folding import fold
from support.operator_cluster import (
    event_job,
    make_entry,
    make_event,
    make_job,
    make_letter,
)

from streams.process.wall_clock import wall_ms
from streams.serde.records import Attempt

T = TypeVar("T")
LIGHT = 400_000
"""So many characters may the HTML of a page have, whatever it shows."""
LONG = "E: " + "ä<b>\u202e " * 1_400_000
"""A message of 10 MiB."""
CAUSES = 100_000
_AT_ONCE = 5_000
SPANS, FAILED = 1_000, 40


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Console]:
    need_chromium()
    async with console(tmp_path) as made:
        yield made


async def looked(desk: Console, look: Callable[[Person], T]) -> T:
    """What somebody who has signed in sees; a browser waits, so it has a thread of its own."""
    token = desk.api.office.token("operator", None)

    def signed_in() -> T:
        with chromium() as browser:
            person = Person(browser, desk.origin)
            person.sign_in(token)
            return look(person)

    return await asyncio.to_thread(signed_in)


def is_light(person: Person) -> bool:
    return len(person.browser.page_source) < LIGHT


def texts(person: Person, css: str) -> list[str]:
    found = person.browser.find_elements(By.CSS_SELECTOR, css)
    return [str(each.get_attribute("textContent")) for each in found]


def turned(person: Person) -> bool:
    """Whether there was a next page, which is shown now."""
    links = person.browser.find_elements(By.CSS_SELECTOR, 'a[rel="next"]')
    for link in links:
        person.open(str(link.get_attribute("href")).removeprefix(person.url))
    return bool(links)


async def test_a_message_of_10_mb_is_cut_on_light_pages_that_lead_to_all_of_it(
    desk: Console,
) -> None:
    assert len(LONG.encode()) > 10 * 1024 * 1024
    run = Attempt(1, 2, "w/1", "failed", LONG, began_at=1, traceback=LONG)
    given: dict[str, Any] = {
        "input": json.dumps({"text": LONG}),
        "last_error": LONG,
        "history": (run,),
    }
    job = make_job("job_a", status="dead", **given)
    fold(desk.api.desk.rows, job, make_letter(job, detail=LONG))

    def look(person: Person) -> str:
        for path in ("/console/jobs", "/console/dlq", "/console/causes", "/console"):
            person.open(path)
            assert is_light(person), path
        person.open("/console/causes")
        person.element("main td a").click()
        for path in ("", "/console/dlq/job_a", "/console/jobs/job_a"):
            if path:
                person.open(path)
            person.sees("more characters")
            assert is_light(person), person.browser.current_url
            assert person.errors() == []
        return str(person.element("a[download]").get_attribute("href"))

    whole = await looked(desk, look)
    browser = await desk.signed_in("viewer")
    status, body = await browser.get(whole.removeprefix(desk.origin))
    assert (status, json.loads(body)["last_error"] == LONG) == (200, True)


@pytest.mark.long
async def test_100_000_causes_are_read_page_by_page(desk: Console) -> None:
    now = wall_ms()
    for start in range(0, CAUSES, _AT_ONCE):
        letters = (
            make_letter(make_job(f"job_{n}"), at=now - n, detail=f"ValueError: no {word(n)}")
            for n in range(start, start + _AT_ONCE)
        )
        fold(desk.api.desk.rows, *letters, at=now)

    def look(person: Person) -> list[str]:
        person.open("/console")
        person.sees("1,000+")
        found: list[str] = []
        person.open("/console/causes")
        for _ in range(4):
            assert is_light(person)
            found += texts(person, "main tbody td:first-child .beside")
            assert turned(person)
        person.open("/console/causes?job_type=nothing")
        person.sees("No")
        assert person.errors() == []
        return found

    found = await looked(desk, look)
    assert found == [f"ValueError: no {word(n)}" for n in range(len(found))]
    assert len(found) >= 4 * 50


def word(number: int) -> str:
    """A name of a number without a digit: messages that differ by numbers alone are one cause."""
    found = ""
    for _ in range(5):
        number, left = divmod(number, 20)
        found = "bcdfghjklmnpqrstvwxz"[left] + found
    return found


async def test_a_waterfall_of_1000_spans_has_pages_and_one_of_what_failed(desk: Console) -> None:
    event = make_event()
    job = event_job(event, status="dead", began_at=event.received_at)
    effects = [
        make_entry(
            job,
            f"mail:send/{n:04}",
            status="failed" if n % (SPANS // FAILED) == 0 else "done",
            first_claimed_at=event.received_at + 10 * n,
            updated_at=event.received_at + 10 * n + 5,
        )
        for n in range(SPANS)
    ]
    fold(desk.api.desk.rows, event, job, *effects)

    def spans(person: Person) -> list[str]:
        found: list[str] = []
        while True:
            assert is_light(person)
            found += [name for name in texts(person, ".waterfall td a") if "mail" in name]
            if not turned(person):
                return found

    def look(person: Person) -> tuple[list[str], list[str]]:
        person.open(f"/console/events/{event.event_id}")
        whole = spans(person)
        person.open(f"/console/events/{event.event_id}")
        person.follow("Only what failed")
        failed = spans(person)
        person.open(f"/console/jobs/{job.job_id}")
        person.sees("the last 200 of 1,000")
        assert is_light(person)
        assert person.errors() == []
        return whole, failed

    whole, failed = await looked(desk, look)
    assert (len(whole), len(set(whole))) == (SPANS, SPANS)
    assert (len(failed), len(set(failed))) == (FAILED, FAILED)


async def test_the_list_of_jobs_fits_a_usual_screen_with_room_for_why(desk: Console) -> None:
    error = "PermanentError: the shop answered 422 with {'error': 'currency missing'} " * 3
    for n, status in enumerate(("dead", "pending", "running", "needs_review", "scheduled")):
        times = {"next_retry_at": wall_ms()} if status == "scheduled" else {}
        fold(
            desk.api.desk.rows,
            make_job(
                f"job_lg8epk7q4h3gldt85p495hmm{n:02}",
                "northwind-traders-eu",
                type="crm.sync_contacts_nightly",
                status=status,
                attempts=n,
                last_error=error if status == "dead" else None,
                **times,
            ),
        )

    def look(person: Person) -> Any:
        person.open("/console/jobs")
        return person.browser.execute_script(
            "const table = document.querySelector('.scroll');"
            "const widths = [...document.querySelectorAll('main th')]"
            ".map(each => each.getBoundingClientRect().width);"
            "return [table.scrollWidth - table.clientWidth, widths];"
        )

    hidden, widths = await looked(desk, look)
    assert hidden == 0
    assert min(widths) > 100
    assert widths[2] > 400, "why it waits, and its last error"

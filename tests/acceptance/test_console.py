"""The console in a real browser, over a real pipeline: what a person does at night."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from support.chromium import chromium, emulate, need_chromium
from support.conditions import eventually
from support.console_walk import Person
from support.dev_process import Dev, start, stop

from streams.cli.api_client import CallFailed
from streams.console.screens import SCREENS

pytestmark = pytest.mark.broker

TESTS = Path(__file__).parent.parent
CLICKS = 12


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    need_chromium()
    running = start(
        tmp_path_factory.mktemp("console"),
        "--app",
        "support.night_app:app",
        folder=TESTS,
        environment={"PYTHONPATH": str(TESTS)},
    )
    yield running
    stop(running)


@pytest.fixture
def person(dev: Dev) -> Iterator[Person]:
    with chromium() as browser:
        yield signed_in(Person(browser, dev.url), dev)


def signed_in(person: Person, dev: Dev) -> Person:
    person.sign_in(dev.token)
    person.clicks = 0
    return person


def submitted(dev: Dev, type_: str, **input_: Any) -> str:
    job = dev.api("POST", "/v1/tenants/demo/jobs", {"type": type_, "input": input_})
    return str(job["job_id"])


def until(dev: Dev, job_id: str, *statuses: str) -> dict[str, Any]:
    def reached() -> Any:
        job = dev.api("GET", f"/v1/jobs/{job_id}")
        return job if job["status"] in statuses else None

    return dict(eventually(reached, what=f"{job_id} is {' or '.join(statuses)}"))


def died(dev: Dev, order: int) -> str:
    """A job whose dead letter is shown, too: its topic is read apart from that of the jobs."""
    job_id = submitted(dev, "refund", order_id=order)
    until(dev, job_id, "failed")
    eventually(lambda: has_letter(dev, job_id), what=f"the dead letter of {job_id}")
    return job_id


def has_letter(dev: Dev, job_id: str) -> bool:
    try:
        dev.api("GET", f"/v1/dlq/{job_id}")
    except CallFailed:
        return False
    return True


def test_from_the_overview_to_why_a_job_died_and_its_replay(dev: Dev, person: Person) -> None:
    died(dev, 1)
    person.open("/console")
    person.follow("dead letters")
    person.follow("By cause")
    person.follow("PermanentError")
    person.sees("Traceback (most recent call last):")
    person.sees("payment:refund/order-")
    person.unfold("Replay one, the sample")
    person.note("the shop has answered")
    person.press("Replay one, the sample")
    person.sees("Replay of")
    person.sees("the shop has answered")
    assert person.clicks < CLICKS
    assert person.errors() == []


def test_all_letters_of_a_cause_are_replayed_as_one_act(dev: Dev, person: Person) -> None:
    for order in (10, 11):
        died(dev, order)
    person.open("/console/causes")
    person.follow("PermanentError")
    act = person.element('input[value="dead_letters.replay"]').find_element(By.XPATH, "../..")
    act.find_element(By.CSS_SELECTOR, "summary").click()
    person.note("all at once")
    act.find_element(By.CSS_SELECTOR, "button").click()
    person.sees("Dead letters: replay")
    person.sees("all at once")
    person.waits(lambda: "done" in person.heading, "the act is done")


def test_two_people_at_one_button_make_one_replay(dev: Dev, person: Person) -> None:
    job_id = died(dev, 20)
    with chromium() as browser:
        other = signed_in(Person(browser, dev.url), dev)
        for each in (person, other):
            each.open(f"/console/dlq/{job_id}")
            each.note(f"by {each.browser.session_id}")
        person.press("Replay")
        person.sees("Replay of")
        other.press("Replay")
        other.sees("It was not done")
        assert f"by {other.browser.session_id}" in other.element("form.asks").text
    replays = dev.api("GET", f"/v1/dlq/{job_id}")["replays"]
    assert len(replays) == 1


def test_back_after_a_form_sends_nothing_again(dev: Dev, person: Person) -> None:
    job_id = died(dev, 30)
    person.open(f"/console/dlq/{job_id}")
    person.note("once")
    person.press("Replay")
    person.sees("Replay of")
    person.browser.back()
    person.sees("has no currency")
    person.browser.refresh()
    person.browser.forward()
    person.sees("Replay of")
    assert len(dev.api("GET", f"/v1/dlq/{job_id}")["replays"]) == 1


def test_everything_works_without_scripts(dev: Dev) -> None:
    job_id = died(dev, 40)
    with chromium(scripts=False) as browser:
        person = signed_in(Person(browser, dev.url), dev)
        person.open(f"/console/jobs/{job_id}")
        person.sees("has no currency")
        person.unfold("Replay")
        person.note("without scripts")
        person.press("Replay")
        person.sees("without scripts")


def test_a_session_that_ends_in_the_middle_leads_to_the_sign_in(dev: Dev) -> None:
    made = dev.api("POST", "/v1/tokens", {"name": "short", "role": "operator", "tenants": ["*"]})
    with chromium() as browser:
        person = Person(browser, dev.url)
        person.sign_in(made["token"])
        job_id = died(dev, 50)
        person.open(f"/console/dlq/{job_id}")
        person.note("typed before the end")
        dev.api("DELETE", f"/v1/tokens/{made['id']}")
        person.press("Replay")
        person.sees("the session is over")
        assert "replayed_as" not in (dev.api("GET", f"/v1/dlq/{job_id}")["replays"] or [{}])[0]
        person.open("/console/jobs")
        assert person.heading == "Sign in"


def test_a_running_job_says_its_tokens_and_its_page_changes_by_itself(
    dev: Dev, person: Person
) -> None:
    job_id = submitted(dev, "slow")
    until(dev, job_id, "running")
    person.open(f"/console/jobs/{job_id}")
    person.sees("token-")
    said = len(person.element("#said").text)
    person.waits(lambda: len(person.element("#said").text) > said + 20, "more tokens")
    dev.api("POST", f"/v1/jobs/{job_id}/cancel", {"reason": "seen"})
    person.waits(lambda: "cancelled" in person.heading, "the page says that it is cancelled")
    assert person.errors() == []


def test_a_form_that_is_opened_while_its_page_is_fetched_stays_open(
    dev: Dev, person: Person
) -> None:
    job_id = died(dev, 80)
    person.open(f"/console/jobs/{job_id}")
    person.sees("has no currency")
    person.browser.execute_script(
        "window.addEventListener('htmx:before:swap', () => { window.fetched = true; });"
        "htmx.trigger(document.getElementById('fresh'), 'news');"
        "document.querySelector('main details.act').open = true;"
    )
    person.waits(lambda: person.browser.execute_script("return window.fetched"), "it is fetched")
    assert person.element("main details.act").get_attribute("open") is not None


def test_a_list_stays_as_it_is_and_says_that_there_is_more(dev: Dev, person: Person) -> None:
    until(dev, submitted(dev, "draft_reply"), "succeeded")
    person.open("/console/jobs")
    person.sees("draft_reply")
    before = person.element("main tbody").text
    job_id = submitted(dev, "draft_reply")
    person.sees("There is something newer: show it")
    assert person.element("main tbody").text == before
    person.follow("There is something newer: show it")
    person.sees(job_id)


def test_a_page_goes_on_after_the_operator_was_killed(dev: Dev, person: Person) -> None:
    job_id = submitted(dev, "slow")
    until(dev, job_id, "running")
    person.open(f"/console/jobs/{job_id}")
    person.sees("token-")
    os.kill(dev.pids["operator-0"], signal.SIGKILL)
    eventually(dev.ready, what="the operator is back")
    dev.api("POST", f"/v1/jobs/{job_id}/cancel", {"reason": "seen"})
    person.waits(lambda: "cancelled" in person.heading, "the page says that it is cancelled")


def test_an_approval_is_given_with_its_note(dev: Dev, person: Person) -> None:
    job_id = submitted(dev, "ask")
    until(dev, job_id, "waiting")
    person.open("/console/approvals?status=pending")
    person.follow("apr_")
    person.sees("Refund 1,200 to a new customer?")
    person.unfold("Approve")
    person.press("Approve")
    person.waits(lambda: "approved" in person.heading, "it is approved")
    until(dev, job_id, "succeeded")


def test_the_keyboard_alone_goes_everywhere(dev: Dev, person: Person) -> None:
    died(dev, 60)
    person.open("/console")
    for screen in SCREENS:
        person.type("g")
        person.type(screen.key)
        person.waits(
            lambda path=screen.path: person.browser.current_url == person.url + path,  # type: ignore[misc]
            f"g {screen.key} opens {screen.title}",
        )
    person.open("/console/jobs")
    person.type("j")
    row = person.browser.switch_to.active_element
    assert f"{person.url}/console/jobs/job_" in str(row.get_attribute("href"))
    person.type("/")
    assert person.browser.switch_to.active_element.get_attribute("name") == "q"


def test_a_list_with_its_filters_is_kept_under_a_name(dev: Dev, person: Person) -> None:
    person.open("/console/jobs?status=failed&type=refund")
    person.element("#save-view").click()
    asked = person.browser.switch_to.alert
    asked.send_keys("dead refunds")
    asked.accept()
    person.open("/console")
    person.follow("dead refunds")
    assert person.browser.current_url.endswith("/console/jobs?status=failed&type=refund")
    person.element("#views button").click()
    person.waits(lambda: not person.element("#views").is_displayed(), "the view is forgotten")


def test_whatever_has_an_id_is_found(dev: Dev, person: Person) -> None:
    job_id = submitted(dev, "draft_reply")
    until(dev, job_id, "succeeded")
    person.open("/console")
    field = person.element('input[name="q"]')
    field.send_keys(job_id)
    field.submit()
    person.sees(job_id)
    assert person.browser.current_url == f"{person.url}/console/jobs/{job_id}"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing_on_any_screen(dev: Dev, person: Person, width: int, dark: bool) -> None:
    job_id = died(dev, 70 + width + dark)
    cause = dev.api("GET", "/v1/causes")["causes"][0]["id"]
    things = [f"/console/jobs/{job_id}", f"/console/dlq/{job_id}", f"/console/causes/{cause}"]
    things += ["/console/tenants/demo", "/console/keys", "/console/nowhere"]
    emulate(person.browser, width, dark=dark)
    found = {}
    for path in [*(screen.path for screen in SCREENS), *things]:
        person.open(path)
        if wrong := person.violations():
            found[path] = wrong
    assert found == {}

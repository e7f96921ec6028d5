"""A person at the console, in a real browser: what they click, type and see."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from support.conditions import eventually

AXE = Path(__file__).with_name("vendor") / "axe-4.12.1.min.js"

STARTING = "The operator is starting"
"""The heading of a page in place of one whose rows may be missing."""


@dataclass
class Person:
    """Who looks; `clicks` counts what they pressed."""

    browser: Chrome
    url: str
    clicks: int = 0

    def open(self, path: str) -> None:
        """Open a page; an operator that begins to follow its topics again is asked again."""
        eventually(lambda: self._opened(path), what=f"{path} is shown")

    def _opened(self, path: str) -> bool:
        self.browser.get(self.url + path)
        return STARTING not in [each.text for each in self.browser.find_elements(By.TAG_NAME, "h1")]

    def sign_in(self, token: str) -> None:
        self.waits(lambda: self._signed_in(token), "the session is open")

    def _signed_in(self, token: str) -> bool:
        self.open("/console/sign-in")
        self.element('input[name="token"]').send_keys(token)
        self.press("Enter")
        return self.heading not in ("Sign in", STARTING)

    def follow(self, text: str) -> None:
        """Click the first link on the page with this text."""
        self._click(By.PARTIAL_LINK_TEXT, text)

    def unfold(self, text: str) -> None:
        """Open the act that is named so."""
        self._click(By.XPATH, f'//main//summary[normalize-space()="{text}"]')

    def press(self, text: str) -> None:
        """Click the button that is named so and can be seen."""
        buttons = self.browser.find_elements(By.XPATH, f'//button[normalize-space()="{text}"]')
        found = next(button for button in buttons if button.is_displayed())
        self.clicks += 1
        found.click()

    def note(self, text: str) -> None:
        """Type into the note that can be seen, once there is one."""
        self.waits(lambda: self._noted(text), "a note to type into")

    def _noted(self, text: str) -> bool:
        notes = self.browser.find_elements(By.CSS_SELECTOR, "textarea[required]")
        seen = next((each for each in notes if each.is_displayed()), None)
        if seen is not None:
            seen.send_keys(text)
        return seen is not None

    def type(self, keys: str) -> None:
        """Press keys on the page, in no field."""
        self.element("body").send_keys(keys)

    def element(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    @property
    def main(self) -> str:
        """The text of the page."""
        return self.element("main").text

    @property
    def heading(self) -> str:
        return self.element("h1").text

    def sees(self, text: str) -> None:
        """Return once the page has a text."""
        self.waits(lambda: text in self.main, f"{text!r} on the page")

    def waits(self, condition: Callable[[], Any], what: str) -> None:
        """Return once a condition holds; a page may be replaced meanwhile."""

        def holds() -> Any:
            try:
                return condition()
            except (NoSuchElementException, StaleElementReferenceException):
                return None

        eventually(holds, what=what)

    def violations(self) -> list[str]:
        """What axe-core finds wrong with the page (WCAG 2.2 A and AA, and its own practices)."""
        # The page's policy lets no script write scripts: axe is given to the browser itself.
        self.browser.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text()})
        asked = "axe.run().then(found => JSON.stringify(found.violations))"
        given = {"expression": asked, "awaitPromise": True, "returnByValue": True}
        answer = self.browser.execute_cdp_cmd("Runtime.evaluate", given)
        found = json.loads(answer["result"]["value"])
        return [
            f"{each['id']}: {each['help']}: {node['html'][:160]}"
            for each in found
            for node in each["nodes"]
        ]

    def errors(self) -> list[str]:
        """What the browser complains about, such as what the page's policy forbade."""
        told = self.browser.get_log("browser")  # type: ignore[no-untyped-call]
        return [each["message"] for each in told if each["level"] == "SEVERE"]

    def leave_field(self) -> None:
        self.browser.switch_to.active_element.send_keys(Keys.ESCAPE)

    def _click(self, by: str, value: str) -> None:
        self.clicks += 1
        self.browser.find_element(by, value).click()

"""A real Chromium, by Debian's packages `chromium` and `chromium-driver`."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

_DRIVER = "chromedriver"
_BROWSER = "chromium"
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # the tests may run as root, in a container
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
)


def need_chromium() -> None:
    """Skip a test on a machine without Chromium."""
    if shutil.which(_DRIVER) is None or shutil.which(_BROWSER) is None:
        pytest.skip("needs Debian's packages chromium and chromium-driver")


@contextmanager
def chromium(
    width: int = 1280, height: int = 900, *, dark: bool = False, scripts: bool = True
) -> Iterator[Chrome]:
    """A browser with a window of this size; it ends with the block."""
    options = ChromeOptions()
    options.binary_location = shutil.which(_BROWSER) or _BROWSER
    for flag in (*_FLAGS, f"--window-size={width},{height}"):
        options.add_argument(flag)
    if not scripts:
        options.add_experimental_option(
            "prefs", {"profile.managed_default_content_settings.javascript": 2}
        )
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = shutil.which(_DRIVER) or _DRIVER
    service = Service(driver, log_output=subprocess.DEVNULL)
    browser = Chrome(options=options, service=service)
    try:
        emulate(browser, width, dark=dark)
        yield browser
    finally:
        browser.quit()


def emulate(browser: Chrome, width: int, *, dark: bool) -> None:
    """Have a browser show pages at a width, in one of the two colours."""
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def picture(browser: Chrome, file: Path) -> None:
    """Write the whole page as a PNG, also what lies below the window."""
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(base64.b64decode(taken["data"]))

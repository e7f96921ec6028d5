"""Takes the pictures of the console in the documents: `make screenshots`.

It starts `tidegate dev` with an application whose jobs die, wait and run, and shows the pages as
somebody on duty sees them. Pictures differ from run to run by their times and ids.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from support.chromium import chromium, emulate, picture
from support.conditions import eventually
from support.console_walk import Person
from support.dev_process import Dev, start, stop

ROOT = Path(__file__).parent.parent.parent
INTO = ROOT / "docs" / "pictures"
WIDTH = 1180


def main() -> None:
    """Write every picture."""
    with tempfile.TemporaryDirectory(prefix="shop-") as folder:
        # A traceback on a picture names no directory of whoever took it.
        shutil.copy(ROOT / "tests" / "support" / "night_app.py", Path(folder, "app.py"))
        dev = start(
            Path(folder),
            "--app",
            "app:app",
            folder=Path(folder),
            environment={"PYTHONPATH": folder},
        )
        try:
            _taken(dev, _incident(dev))
        finally:
            stop(dev)


def _incident(dev: Dev) -> dict[str, str]:
    """Have jobs die, run and wait; return the paths of the pages to show."""
    died = [_submitted(dev, "refund", order_id=order) for order in range(41, 48)]
    _submitted(dev, "slow")
    _submitted(dev, "ask")
    for job_id in died:
        _until(dev, job_id, "failed")
    cause = dev.api("GET", "/v1/causes")["causes"][0]["id"]
    return {
        "overview": "/console",
        "cause": f"/console/causes/{cause}",
        "jobs": "/console/jobs",
        "job": f"/console/jobs/{died[-1]}",
    }


def _submitted(dev: Dev, type_: str, **input_: Any) -> str:
    job = dev.api("POST", "/v1/tenants/demo/jobs", {"type": type_, "input": input_})
    return str(job["job_id"])


def _until(dev: Dev, job_id: str, status: str) -> None:
    eventually(
        lambda: dev.api("GET", f"/v1/jobs/{job_id}")["status"] == status,
        what=f"{job_id} is {status}",
    )


def _taken(dev: Dev, pages: dict[str, str]) -> None:
    with chromium(WIDTH) as browser:
        person = Person(browser, dev.url)
        person.sign_in(dev.token)
        for name, path in pages.items():
            emulate(browser, WIDTH, dark=False)
            person.open(path)
            person.waits(lambda: person.heading, "the page")
            picture(browser, INTO / f"console-{name}.png")
            print(f"docs/pictures/console-{name}.png", file=sys.stderr)


if __name__ == "__main__":
    main()

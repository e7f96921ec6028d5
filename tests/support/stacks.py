"""Shows with the test where each thread stood, if its process crashes or stands still.

pytest's own plugin prints whole stacks in the middle of a run's output. Under pytest-xdist this one
keeps them until the end, and shows the innermost calls. `-p no:faulthandler` leaves the other out.
"""

from __future__ import annotations

import faulthandler
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_STANDS_STILL_SECONDS = 1_800
_DIRECTORY = "TIDEGATE_TEST_STACKS"
_CALLS = 8
_OUTPUT = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Have a crash print the stacks: under xdist into a file for each process."""
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        output = os.open(Path(os.environ[_DIRECTORY], worker), os.O_WRONLY | os.O_CREAT)
    else:
        directory = tempfile.TemporaryDirectory()
        config.add_cleanup(directory.cleanup)
        os.environ[_DIRECTORY] = directory.name
        output = os.dup(2)  # while a test runs, 2 is where its output is kept
    config.stash[_OUTPUT] = output
    faulthandler.enable(output)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End the process, with its stacks, if a test and what it needs take half an hour."""
    output = item.config.stash[_OUTPUT]
    faulthandler.dump_traceback_later(_STANDS_STILL_SECONDS, exit=True, file=output)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(report: pytest.TestReport) -> None:
    """Add the stacks to the report of a test whose process is gone."""
    dump = Path(os.environ[_DIRECTORY], report.node.gateway.id).read_text()
    stacks = ["\n".join(each.splitlines()[: _CALLS + 1]) for each in dump.split("\n\n")]
    report.longrepr = f"{report.longrepr}\n" + "\n\n".join(stacks)

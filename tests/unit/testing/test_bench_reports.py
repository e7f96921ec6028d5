"""What a failing test of an application shows: its own line, and the handler's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import streams
from streams.new.project import make

TESTS = """
import asyncio
import pytest
from streams.testing import Bench
from app import app

TICKET = {"detail": {"id": "1", "subject": "fire"}}


@pytest.fixture
def bench():
    with Bench(app, strict=True) as made:
        yield made


def test_without_a_fake(bench):
    bench.event("ticket.created", TICKET).run()


def test_in_a_loop(bench):
    async def in_a_loop():
        bench.event("ticket.created", TICKET).run()

    asyncio.run(in_a_loop())


def test_of_an_unknown_type(bench):
    bench.submit("no_such_type")


def test_that_waits_in_vain(bench):
    bench.fake("email:send")
    bench.event("ticket.created", TICKET).pause_in("no:tool")


def test_of_what_is_refused(bench):
    bench.event("ticket.created", TICKET, key="")


def test_with_a_broken_body(bench):
    assert bench.event("ticket.created", {}).run().status == "succeeded"
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest prints about the failing tests of a new application."""
    folder = tmp_path_factory.mktemp("new") / "shop"
    make(folder)
    (folder / "tests/test_app.py").write_text(TESTS)
    root = str(Path(streams.__file__).parents[1])
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.stdout


def test_a_failure_has_the_tests_line_and_no_frame_of_the_product(report: str) -> None:
    assert "6 failed" in report
    for told in (
        "streams.testing.refused.Unprovided: effect email:send/reply of job",
        "streams.errors.ConfigError: app 'shop' has no job type 'no_such_type'",
        "streams.testing.flow.Stuck: ",
        "streams.testing.refused.Refused: invalid-request: ",
    ):
        assert f"E       {told}" in report, report
    assert f"{Path(streams.__file__).parent}{os.sep}" not in report, report


def test_a_handlers_traceback_is_printed_once_for_each_attempt_with_its_own_lines(
    report: str,
) -> None:
    assert 'ticket = (await ctx.json())["detail"]' in report
    assert report.count("KeyError: 'detail'\n") == report.count("[warning  ] handler raised ")

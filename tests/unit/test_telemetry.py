"""What a log line of a stage shows, and what it does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

_RAISING = """
import structlog
from streams.settings import Settings
from streams.telemetry import configure_logging

configure_logging(Settings(log_format={log_format!r}), stage="worker")
structlog.contextvars.bind_contextvars(job_id="job_a")

def handler(token):
    raise ValueError("odd")

try:
    handler("s3" + "cret")
except ValueError as error:
    structlog.get_logger().warning("handler raised", exc_info=error)
"""


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_traceback_names_its_job_and_shows_no_values(log_format: str) -> None:
    code = _RAISING.format(log_format=log_format)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for expected in ("Traceback (most recent call last)", "in handler", "ValueError: odd", "job_a"):
        assert expected in done.stderr
    assert "s3cret" not in done.stderr

"""A command's standard output: any character, a full disk, a reader that is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from support.operator_api import OperatorApi
from support.operator_cluster import make_job

from streams.api.jobs.view import JobDetails, job_json

TYPE = "réponse→x"
JOB = {**job_json(make_job("job_a"), JobDetails()), "type": TYPE}
LIST = {"jobs": [JOB] * 200, "next_cursor": None}


def listed(operator: OperatorApi, *options: str, encoding: str = "ascii", **more: Any) -> Any:
    operator.on("GET", "/v1/jobs", LIST)
    words = [sys.executable, "-m", "streams.cli", "jobs", "list", "--url", operator.url, *options]
    env = os.environ | {"PYTHONIOENCODING": f"{encoding}:strict"}
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 60} | more
    return subprocess.run(words, env=env, check=False, **given)


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("ascii", b"r\\xe9ponse\\u2192x"), ("iso-8859-1", b"r\xe9ponse\\u2192x")],
)
def test_a_terminal_without_a_character_gets_its_number(
    operator: OperatorApi, encoding: str, shown: bytes
) -> None:
    done = listed(operator, encoding=encoding)
    assert (done.returncode, done.stderr, shown in done.stdout) == (0, b"", True)


def test_json_is_utf8_whatever_the_terminal_is(operator: OperatorApi) -> None:
    done = listed(operator, "--json")
    assert json.loads(done.stdout.decode("utf-8")) == LIST


@pytest.mark.parametrize("options", [(), ("--json",)])
@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_a_full_disk_is_an_error_in_one_line(
    operator: OperatorApi, options: tuple[str, ...]
) -> None:
    with open("/dev/full", "wb") as full:
        done = listed(operator, *options, stdout=full)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.startswith(b"error: standard output cannot be written (No space left")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_reader_that_is_gone_ends_the_command_without_a_word(
    operator: OperatorApi, options: tuple[str, ...]
) -> None:
    readable, writable = os.pipe()
    os.close(readable)
    try:
        done = listed(operator, *options, stdout=writable)
    finally:
        os.close(writable)
    assert (done.returncode, done.stderr) == (141, b"")

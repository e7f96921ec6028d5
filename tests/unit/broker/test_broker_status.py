"""`broker.json`: believed only while the very process lives and its port answers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.broker.java import process_mark
from streams.broker.status import BrokerStatus, read_status, status_file, status_text, stop_broker


def note(data_dir: Path, pid: int, port: int = 1) -> None:
    status_file(data_dir).write_text(status_text(f"127.0.0.1:{port}", pid, "4.3.1"))


@pytest.fixture
def lookalike(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a broker's command line that waits for its end."""
    mark = process_mark(tmp_path.resolve() / "kafka")
    command = [sys.executable, "-c", "print(flush=True); input()", mark, "kafka.Kafka"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


@pytest.fixture
def open_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_no_file_is_no_broker(tmp_path: Path) -> None:
    assert read_status(tmp_path) == BrokerStatus(False, None, None, None)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"bootstrap": "x", "pid": 1, "version": "4"}'])
def test_a_damaged_file_is_no_broker(tmp_path: Path, text: str) -> None:
    status_file(tmp_path).write_text(text)
    assert read_status(tmp_path) == BrokerStatus()


def test_a_reused_pid_is_no_broker(tmp_path: Path, open_port: int) -> None:
    note(tmp_path, os.getpid(), open_port)
    assert read_status(tmp_path) == BrokerStatus()


def test_a_live_broker_is_running(
    tmp_path: Path, lookalike: subprocess.Popen[bytes], open_port: int
) -> None:
    note(tmp_path, lookalike.pid, open_port)
    found = read_status(tmp_path)
    assert found == BrokerStatus(True, f"127.0.0.1:{open_port}", lookalike.pid, "4.3.1")
    assert list(json.loads(found.as_json())) == ["running", "bootstrap", "pid", "version"]


def test_a_broker_whose_port_is_silent_is_not_running_but_known(
    tmp_path: Path, lookalike: subprocess.Popen[bytes]
) -> None:
    note(tmp_path, lookalike.pid, port=1)
    found = read_status(tmp_path)
    assert (found.running, found.pid) == (False, lookalike.pid)


def test_stop_leaves_a_reused_pid_alone(tmp_path: Path) -> None:
    note(tmp_path, os.getpid())
    assert stop_broker(tmp_path).pid is None


def test_the_file_tells_when_it_started(tmp_path: Path) -> None:
    stored = json.loads(status_text("127.0.0.1:9", 7, "4.3.1"))
    assert set(stored) == {"bootstrap", "pid", "version", "started_at"}

"""`tidegate broker start --detach` leaves a broker that is ready, and nothing if it ends before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer
from support.conditions import eventually
from typer.testing import CliRunner

from streams.broker.datadir import DataDir
from streams.cli import broker as commands
from streams.errors import BrokerError

# The command with a JVM that is never ready: it writes its pid, and waits for its end.
NEVER_READY = """
import signal, sys
from streams.broker import embedded
from streams.cli import broker as commands
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored
jvm = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
embedded.ensure_jars = lambda: []
embedded.format_data = lambda *_: None
embedded.server_command = lambda *_: [sys.executable, "-c", jvm]
commands.missing_jars = lambda: []
commands.app()
"""
Start = Callable[..., "subprocess.Popen[bytes]"]


def pids(data_dir: Path) -> list[int]:
    """Of the JVMs that have started below the directory."""
    logs = [log.read_text() for log in data_dir.glob("**/kafka/jvm.log")]
    return [int(log) for log in logs if log.endswith("\n")]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the command, and returns when so many JVMs run."""
    started: list[subprocess.Popen[bytes]] = []

    def start(nodes: int) -> subprocess.Popen[bytes]:
        arguments = ["start", "--detach", "--port", "0", "--nodes", str(nodes)]
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", NEVER_READY, *arguments, "--data-dir", str(tmp_path)]
            )
        )
        eventually(lambda: len(pids(tmp_path)) == nodes, what="the JVMs run")
        return started[-1]

    yield start
    for command in started:
        command.kill()
        command.wait()
    for pid in pids(tmp_path):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def free(directory: Path) -> bool:
    """Whether no process has the directory: neither a JVM nor its reaper."""
    try:
        with DataDir(directory).claimed():
            return True
    except BrokerError:
        return False


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_start_that_is_ended_before_the_node_is_ready_leaves_no_jvm(
    start: Start, tmp_path: Path, ending: signal.Signals
) -> None:
    command = start(nodes=1)
    command.send_signal(ending)
    code = command.wait(30)
    assert code == (128 + ending if ending == signal.SIGTERM else -ending)
    eventually(lambda: free(tmp_path), what="the directory is free")


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
def test_a_start_that_is_ended_before_its_three_nodes_are_ready_leaves_none(
    start: Start, tmp_path: Path, ending: signal.Signals
) -> None:
    start(nodes=3).send_signal(ending)
    for node in (1, 2, 3):
        eventually(partial(free, tmp_path / f"node-{node}"), what=f"node {node} is gone")


def test_it_says_ready_only_when_the_broker_would_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that has read the line may end the command at once."""
    done: list[str] = []

    class Played:
        bootstrap = "127.0.0.1:1"

        def __init__(self, *_: Any) -> None: ...

        def start(self) -> None:
            done.append("started")

        def release(self) -> None:
            done.append("released")

    monkeypatch.setattr(commands, "EmbeddedKafka", Played)
    monkeypatch.setattr(commands, "end_on_sigterm", lambda: done.append("ends on SIGTERM"))
    monkeypatch.setattr(typer, "echo", lambda text, **_: done.append(text[:12]))
    monkeypatch.setattr(commands, "missing_jars", list)
    shown = CliRunner().invoke(commands.app, ["start", "--detach", "--data-dir", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert done == ["ends on SIGTERM", "started", "released", "broker ready"]

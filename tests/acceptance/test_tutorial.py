"""docs/tutorial.md, typed in from its first command to its last, in a new application."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from support.conditions import eventually, exit_code
from support.console_page import INTERRUPT, Command, File, Reader, steps

from streams.broker.ports import pick_free
from streams.new.project import make

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/tutorial.md").read_text()
_PROMPT = "what was typed has ended with"
pytestmark = pytest.mark.broker


class Terminal:
    """A shell in a directory; `printed` is all that the newest command has written so far."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self._shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=environ,
            text=True,
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.printed = ""
        self._reading = Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._shell.stdout
        for line in self._shell.stdout:
            self.printed += line

    def type(self, command: str) -> None:
        assert self._shell.stdin
        self.printed = ""
        self._shell.stdin.write(f"{{ {command}\n}} </dev/null; echo {_PROMPT} $?\n")
        self._shell.stdin.flush()

    @property
    def ended(self) -> bool:
        return f"{_PROMPT} " in self.printed

    @property
    def output(self) -> str:
        """What the newest command has written, without the prompt."""
        return re.sub(rf"{_PROMPT} \d+\n", "", self.printed)

    @property
    def succeeded(self) -> bool:
        return self.printed.endswith(f"{_PROMPT} 0\n")

    def interrupt(self) -> None:
        """Ctrl-C: the signal goes to whatever runs in the foreground."""
        os.killpg(self._shell.pid, signal.SIGINT)

    def close(self) -> None:
        """End the shell, and wait until nobody can write to it any more."""
        if self._shell.poll() is None:
            os.killpg(self._shell.pid, signal.SIGTERM)
        self._reading.join(60)
        exit_code(self._shell)


class Desk:
    """Works through the page, with a terminal for each that it names."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self._folder, self._environ = folder, environ
        self._reader = Reader()
        self._terminals: dict[str, Terminal] = {}

    def do(self, step: File | Command) -> None:
        """Save a file; type a command until it prints what the page shows."""
        if isinstance(step, File):
            (self._folder / step.name).write_text(step.text)
            return
        terminal = self._terminal(step.terminal)
        done = self._first_try(step, terminal)
        try:
            eventually(done, what=f"$ {step.text}")
        except AssertionError as error:
            told = f"{error}\nthe page shows:\n{step.output}\nprinted:\n{terminal.output}"
            raise AssertionError(told) from None

    def _first_try(self, step: Command, terminal: Terminal) -> Callable[[], bool]:
        """What is to come true; a command that shows nothing is typed once, and so is `^C`.

        A step without a command waits for what its terminal prints.
        """
        if step.text == INTERRUPT:
            terminal.interrupt()
        elif not step.text:
            pass
        elif step.terminal or step.output is None:
            terminal.type(self._reader.command(step.text))
        else:
            return lambda: self._again(step, terminal)
        return lambda: self._agrees(step, terminal)

    def _again(self, step: Command, terminal: Terminal) -> bool:
        terminal.type(self._reader.command(step.text))
        eventually(lambda: terminal.ended, what=f"the end of $ {step.text}")
        return self._agrees(step, terminal)

    def _agrees(self, step: Command, terminal: Terminal) -> bool:
        stays = bool(step.terminal) and step.text != INTERRUPT
        if not stays and not terminal.succeeded:
            return False
        return self._reader.agrees(step.output or "", terminal.output, so_far=stays)

    def _terminal(self, name: str) -> Terminal:
        if name not in self._terminals:
            self._terminals[name] = Terminal(self._folder, self._environ)
        return self._terminals[name]

    def processes(self) -> list[int]:
        """Every process of the running pipeline."""
        state = json.loads((self._folder / ".tidegate/dev.json").read_text())
        return [state["pid"], state["broker_pid"], *(one["pid"] for one in state["processes"])]

    def close(self) -> None:
        for terminal in self._terminals.values():
            terminal.close()


def environment(port: int) -> dict[str, str]:
    """That of a terminal of 100 columns, after the page's installation."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "TIDEGATE_PORT": str(port),
        "TTY_COMPATIBLE": "1",
        "COLUMNS": "100",
        "LINES": "50",
    }


@pytest.fixture
def port() -> int:
    return pick_free()


@pytest.fixture
def desk(tmp_path: Path, port: int) -> Iterator[Desk]:
    assert "\n$ tidegate new ../helpdesk\n$ cd ../helpdesk\n" in PAGE
    make(tmp_path / "helpdesk")
    at_work = Desk(tmp_path / "helpdesk", environment(port))
    yield at_work
    at_work.close()


def test_the_tutorial_works_as_written(desk: Desk, port: int) -> None:
    """Its installation aside: this test runs in one. The port is a free one."""
    page = PAGE.replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    todo = [s for s in steps(page) if isinstance(s, File) or s.terminal != "install"]
    started: list[int] = []
    for step in todo:
        if step == todo[-1]:
            started = desk.processes()
        desk.do(step)
    eventually(lambda: not any(map(_alive, started)), what=f"all of {started} gone")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

"""A running `tidegate dev`, and its HTTP as a program calls it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import IO, Any

from streams.cli.api_client import call
from support.conditions import PATIENCE_SECONDS, eventually, exit_code

READY_SECONDS = 240.0


@dataclass
class Dev:
    """One run of `tidegate dev` on a data directory."""

    data_dir: Path
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """The lines of standard output and of standard error."""

    @property
    def state(self) -> dict[str, Any]:
        return dict(json.loads((self.data_dir / "dev.json").read_text()))

    @property
    def pids(self) -> dict[str, int]:
        """By process name, the broker's and the supervisor's own too."""
        state = self.state
        pids = {one["name"]: one["pid"] for one in state["processes"]}
        return {**pids, "broker": state["broker_pid"], "dev": state["pid"]}

    @property
    def url(self) -> str:
        return self.line("tidegate ready ").removeprefix("tidegate ready ")

    @property
    def token(self) -> str:
        return self.line("admin token: ").removeprefix("admin token: ")

    def line(self, start: str) -> str:
        return next((line for line in self.lines if line.startswith(start)), "")

    def printed_delivery(self) -> str:
        """The `curl` that delivers a signed event."""
        text = "\n".join(self.lines).replace("\\\n", " ")
        (found,) = [line for line in text.splitlines() if line.startswith("curl ")]
        return found

    def printed_job(self) -> dict[str, Any]:
        """What the printed command shows of the delivery's job; empty while there is none."""
        printed = [line for line in self.lines if line.startswith("  tidegate jobs show ")][-1]
        words = [sys.executable, "-m", "streams.cli", *shlex.split(printed)[1:], "--json"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        shown: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
        return shown

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Call the operator's API; what it answers.

        Raises:
            CallFailed: it refused the call.
        """
        return call(self.url, self.token, method, path, body=body)

    def told(self, *parts: str) -> None:
        """Return once a line of standard error has these parts."""
        eventually(
            lambda: any(all(part in line for part in parts) for line in self.errors),
            what=f"a line: {' … '.join(parts)}",
        )

    def ready(self) -> bool:
        try:
            return get(f"{self.url}/readyz")[0] == 200
        except OSError:
            return False


def start(
    data_dir: Path,
    *arguments: str,
    command: Sequence[str] = (sys.executable, "-m", "streams.cli"),
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Dev:
    """Start it and return once it says that it is ready; `environment` is added to this one's.

    One that does not become ready is ended, and the error has its last lines.
    """
    process = subprocess.Popen(
        [*command, "dev", "--port", "0", "--data-dir", str(data_dir), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, **(environment or {})},
    )
    dev = Dev(data_dir, process)
    Thread(target=_collect, args=(process.stdout, dev.lines), daemon=True).start()
    Thread(target=_collect, args=(process.stderr, dev.errors), daemon=True).start()
    try:
        eventually(
            lambda: dev.line("Ctrl-C") or process.poll() is not None, READY_SECONDS, what="ready"
        )
        assert process.poll() is None, "it ended before it was ready"
    except AssertionError as error:
        process.kill()
        said = "\n".join([*dev.lines, *dev.errors][-30:])
        raise AssertionError(f"dev: {error}\n{said}") from error
    return dev


def _collect(stream: IO[str] | None, lines: list[str]) -> None:
    assert stream
    for line in stream:
        lines.append(line.rstrip("\n"))


def stop(dev: Dev, number: signal.Signals = signal.SIGINT) -> int:
    if dev.process.poll() is None:
        dev.process.send_signal(number)
    return exit_code(dev.process)


def curl(command: str) -> tuple[int, dict[str, Any]]:
    """Do what a printed curl command would, by the shell's own rules of quoting."""
    words = shlex.split(command)[1:]
    headers: dict[str, str] = {}
    url, body = "", None
    while words:
        word = words.pop(0)
        if word == "-H":
            name, _, value = words.pop(0).partition(": ")
            headers[name] = value
        elif word == "--data-raw":
            body = words.pop(0).encode()
        elif not word.startswith("-"):
            url = word
    status, text = get(url, headers, body)
    return status, json.loads(text)


def get(
    url: str, headers: dict[str, str] | None = None, body: bytes | None = None
) -> tuple[int, str]:
    request = urllib.request.Request(url, body, headers or {})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()

"""`make recordings`: what the commands print on a terminal, as pictures beside this file.

An application of `tidegate new` runs in a `tidegate dev` of its own, in a temporary directory. Each
command runs in a pseudo-terminal of 100 columns. Its output is drawn as printed, with its colours.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from threading import Thread

from rich.console import Console
from rich.text import Text
from support.conditions import eventually
from support.console_page import drawn_last

from streams.broker.ports import pick_free

HERE = Path(__file__).parent
COLUMNS, LINES = 100, 50
_USUAL_PORT = 8080
_WITHIN_SECONDS = 120.0
_NO_SUBJECT = (
    '{"id": "e2", "type": "zen:event-type:ticket.created", "time": "2026-11-23T20:00:00Z",'
    ' "account_id": 1, "subject": "zen:ticket:7", "detail": {"id": "7"}, "event": {}}'
)
_DEV = "tidegate dev --app app:app --topology topology.yaml --reload"
_DOCTOR = "tidegate doctor --topology topology.yaml"
_SEND = "tidegate send --tenant demo --source zendesk --sample ticket.created --times 3"


class Terminal:
    """A command in a pseudo-terminal; `printed` is what it has written so far."""

    def __init__(self, command: str, folder: Path, environ: dict[str, str]) -> None:
        self._ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.command, self.printed = command, ""
        self.process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=folder,
            env=environ,
            start_new_session=True,
            stdin=its,
            stdout=its,
            stderr=its,
        )
        os.close(its)
        self._reading = Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        with os.fdopen(self._ours, "rb", buffering=0) as output:
            while chunk := _chunk(output.fileno()):
                self.printed += chunk.decode(errors="replace").replace("\r\n", "\n")

    def waits_for(self, shown: str) -> None:
        eventually(
            lambda: shown in self.printed, _WITHIN_SECONDS, what=f"{shown!r}: {self.command}"
        )

    def ends(self) -> str:
        """All that it has printed, once it has ended."""
        self.process.wait(_WITHIN_SECONDS)
        self._reading.join(_WITHIN_SECONDS)
        return self.printed

    def interrupt(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)
        self.ends()


def _chunk(descriptor: int) -> bytes:
    """What is there to read; nothing once the last writer is gone (Linux: EIO)."""
    try:
        return os.read(descriptor, 65_536)
    except OSError:
        return b""


def picture(command: str, printed: str, name: str) -> str:
    """A command and its output as an SVG."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text.from_ansi(drawn_last(printed).rstrip()))
    svg = console.export_svg(title="tidegate", unique_id=name)
    return re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # no fonts from other servers


def record(folder: Path, environ: dict[str, str], save: Callable[[str, str, str], None]) -> None:
    """Run every command against a fresh `dev`, and save each output."""
    dev = Terminal(_DEV, folder, environ)
    try:
        dev.waits_for("Ctrl-C stops everything")

        def typed(name: str, command: str) -> str:
            printed = Terminal(command, folder, environ).ends()
            save(name, command, printed)
            return printed

        sent = typed("send", _SEND)
        found = re.search(r"\bjob_[0-9a-z]+", sent)
        if not found:
            sys.exit(f"no job was made:\n{sent}")
        typed("jobs-watch", f"tidegate jobs watch {found[0]}")
        typed("jobs-show", f"tidegate jobs show {found[0]}")
        (folder / "no-subject.json").write_text(_NO_SUBJECT)
        typed("send-failed", "tidegate send no-subject.json --tenant demo --source zendesk")
        typed("dlq-list", "tidegate dlq list")
        # Its standard error has only what moves while it looks.
        save("doctor", _DOCTOR, Terminal(f"{_DOCTOR} 2>/dev/null", folder, environ).ends())
        typed("topology-describe", "tidegate topology describe --topology topology.yaml")
        dev.waits_for("dead letter")
        save("dev", _DEV, dev.printed)
    finally:
        dev.interrupt()


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    kept.pop("NO_COLOR", None)
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "TIDEGATE_PORT": str(_port()),
    }


def _port() -> int:
    """The usual port, so that the pictures agree with the pages; another if it is taken."""
    with socket.socket() as probe:
        taken = probe.connect_ex(("127.0.0.1", _USUAL_PORT)) == 0
    return pick_free() if taken else _USUAL_PORT


def _save(name: str, command: str, printed: str) -> None:
    (HERE / f"{name}.svg").write_text(picture(command, printed, name))
    print(f"drawn {name}.svg", flush=True)


def main() -> None:
    environ = _environment()
    with tempfile.TemporaryDirectory(prefix="tidegate-recordings-") as folder:
        Terminal("tidegate new helpdesk", Path(folder), environ).ends()
        record(Path(folder) / "helpdesk", environ, _save)


if __name__ == "__main__":
    main()

"""`make recordings`: what the commands print on a terminal, as pictures beside this file.

An application of `tidegate new`, and then the support desk of `examples/`, run in a `tidegate dev`
of their own, in a temporary directory. Each command runs in a pseudo-terminal of 100 columns. Its
output is drawn as printed, with its colours.
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
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from threading import Thread

from rich.console import Console
from rich.text import Text
from support.conditions import eventually
from support.console_page import drawn_last

from streams.broker.ports import pick_free

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
COLUMNS, LINES = 100, 50
_USUAL_PORT = 8080
_WITHIN_SECONDS = 120.0
_NO_SUBJECT = (
    '{"id": "e2", "type": "zen:event-type:ticket.created", "time": "2026-11-23T20:00:00Z",'
    ' "account_id": 1, "subject": "zen:ticket:7", "detail": {"id": "7"}, "event": {}}'
)
_TICKET = (
    '{{"id": "e{0}", "type": "zen:event-type:ticket.{1}", "time": "2026-11-23T20:0{0}:00Z",'
    ' "account_id": 1, "subject": "zen:ticket:7", "event": {{}},'
    ' "detail": {{"id": "7", "subject": "My printer is on fire"}}}}'
)
_SUPPORT = "tidegate dev --app examples.support.app:app --topology examples/support/topology.yaml"
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


def picture(typed: Sequence[tuple[str, str]], name: str) -> str:
    """Commands, each with its output, as an SVG."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    for command, printed in typed:
        console.print(Text(f"$ {command}", style="bold"))
        console.print(Text.from_ansi(drawn_last(printed).rstrip()))
    svg = console.export_svg(title="tidegate", unique_id=name)
    return re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # no fonts from other servers


Save = Callable[[str, Sequence[tuple[str, str]]], None]


def record_application(folder: Path, environ: dict[str, str], save: Save) -> None:
    """Run every command against a fresh `dev`, and save each output."""
    dev = Terminal(_DEV, folder, environ)
    try:
        dev.waits_for("Ctrl-C stops everything")

        def typed(name: str, command: str) -> str:
            printed = Terminal(command, folder, environ).ends()
            save(name, [(command, printed)])
            return printed

        sent = typed("send", _SEND)
        job = _named("job", sent)
        typed("jobs-watch", f"tidegate jobs watch {job}")
        typed("jobs-show", f"tidegate jobs show {job}")
        (folder / "no-subject.json").write_text(_NO_SUBJECT)
        typed("send-failed", "tidegate send no-subject.json --tenant demo --source zendesk")
        typed("dlq-list", "tidegate dlq list")
        # Its standard error has only what moves while it looks.
        save("doctor", [(_DOCTOR, Terminal(f"{_DOCTOR} 2>/dev/null", folder, environ).ends())])
        typed("topology-describe", "tidegate topology describe --topology topology.yaml")
        dev.waits_for("dead letter")
        save("dev", [(_DEV, dev.printed)])
    finally:
        dev.interrupt()


def record_support_desk(folder: Path, environ: dict[str, str], save: Save) -> None:
    """A follow-up that a solved ticket cancels, and an answer that a person approves."""
    (folder / "examples").symlink_to(EXAMPLES)
    for number, what in enumerate(("pending", "solved", "escalated"), 1):
        (folder / f"{what}.json").write_text(_TICKET.format(number, what))
    dev = Terminal(_SUPPORT, folder, environ)
    try:
        dev.waits_for("Ctrl-C stops everything")
        typed: list[tuple[str, str]] = []

        def told(command: str) -> str:
            typed.append((command, Terminal(command, folder, environ).ends()))
            return typed[-1][1]

        job = _named("job", told(_sent("pending")))
        dev.waits_for(f"waiting    {job}")
        told(f"tidegate jobs show {job}")
        told(_sent("solved"))
        dev.waits_for(f"cancelled  {job}")
        told("tidegate jobs list --type follow_up")
        save("follow-up", typed)
        typed.clear()
        job = _named("job", told(_sent("escalated")))
        dev.waits_for(f"waiting    {job}")
        approval = _named("apr", told("tidegate approvals list --status pending"))
        told(f"tidegate approvals show {approval}")
        told(f'tidegate approvals approve {approval} --note "well said"')
        told(f"tidegate jobs watch {job}")
        save("draft", typed)
    finally:
        dev.interrupt()


def _sent(what: str) -> str:
    return f"tidegate send {what}.json --tenant demo --source zendesk --no-wait"


def _named(kind: str, printed: str) -> str:
    """The first id of a kind."""
    found = re.search(rf"\b{kind}_[0-9a-z]+", printed)
    if not found:
        sys.exit(f"no {kind}:\n{printed}")
    return found[0]


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


def _save(name: str, typed: Sequence[tuple[str, str]]) -> None:
    (HERE / f"{name}.svg").write_text(picture(typed, name))
    print(f"drawn {name}.svg", flush=True)


def main() -> None:
    environ = _environment()
    with tempfile.TemporaryDirectory(prefix="tidegate-recordings-") as folder:
        Terminal("tidegate new helpdesk", Path(folder), environ).ends()
        record_application(Path(folder) / "helpdesk", environ, _save)
        (Path(folder) / "desk").mkdir()
        record_support_desk(Path(folder) / "desk", environ, _save)


if __name__ == "__main__":
    main()

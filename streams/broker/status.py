"""`broker.json`: the running broker's address, and whether it really still runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from streams.broker import ports
from streams.broker.java import process_mark

_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class BrokerStatus:
    """What `tidegate broker status` reports; None where unknown."""

    running: bool = False
    bootstrap: str | None = None
    pid: int | None = None
    version: str | None = None

    def as_json(self) -> str:
        return json.dumps(asdict(self))


def status_file(data_dir: Path) -> Path:
    return data_dir / "broker.json"


def status_text(bootstrap: str, pid: int, version: str) -> str:
    """Content of the status file for a broker that just became ready."""
    return (
        json.dumps(
            {
                "bootstrap": bootstrap,
                "pid": pid,
                "version": version,
                "started_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            }
        )
        + "\n"
    )


def read_status(data_dir: Path) -> BrokerStatus:
    """The broker of this data directory: `running` when its process lives and its port answers.

    A pid that now belongs to another program counts as gone. A damaged or missing file is the
    same as no broker.
    """
    try:
        stored = json.loads(status_file(data_dir).read_text())
        bootstrap, pid, version = str(stored["bootstrap"]), int(stored["pid"]), stored["version"]
        port = int(bootstrap.rsplit(":", 1)[1])
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return BrokerStatus()
    if not is_broker(pid, data_dir):
        return BrokerStatus()
    return BrokerStatus(ports.accepts(port), bootstrap, pid, version)


def is_broker(pid: int, data_dir: Path) -> bool:
    """Whether `pid` is, right now, a Kafka server on this data directory.

    Its command line names the directory, so a reused pid cannot match by accident.
    """
    return f"{process_mark(data_dir.resolve() / 'kafka')} " in _command_line(pid)


def stop_broker(data_dir: Path, *, at_once: bool = False) -> BrokerStatus:
    """Stop the directory's broker, whoever started it; returns its status (`pid` None: none ran).

    SIGTERM first; SIGKILL after 30 seconds, or `at_once`.
    """
    status = read_status(data_dir)
    if status.pid is None:
        return status
    os.kill(status.pid, signal.SIGKILL if at_once else signal.SIGTERM)
    if not _gone(status.pid, data_dir):
        os.kill(status.pid, signal.SIGKILL)
        _gone(status.pid, data_dir)
    status_file(data_dir).unlink(missing_ok=True)
    return status


def _gone(pid: int, data_dir: Path) -> bool:
    deadline = time.monotonic() + _STOP_SECONDS
    while is_broker(pid, data_dir):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _command_line(pid: int) -> str:
    """The process's arguments with a space after each; empty when it does not exist."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:
            return ""
    listed = subprocess.run(  # noqa: S603
        ["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    return listed.stdout.strip() + " "

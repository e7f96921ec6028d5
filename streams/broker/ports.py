"""Loopback ports for the broker: pick a free one, or name the holder of a taken one."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

from streams.errors import BrokerError

HOST = "127.0.0.1"
# Stay below every system's range for outgoing connections (Linux from 32768, macOS from 49152).
# While the broker is down, a client that keeps dialling a port of that range can be given the very
# port as its own source, connect to itself, and keep the broker from ever taking it back.
_CANDIDATES = range(20_000, 32_000)
_TRIES = 200
_LISTEN = "0A"


def is_free(port: int) -> bool:
    """Whether a server could listen on the loopback port now."""
    with socket.socket() as probe:
        # Java does the same: an ended connection that lingers in TIME_WAIT is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def pick_free(avoid: frozenset[int] = frozenset()) -> int:
    """A free port outside the range of outgoing connections.

    Raises:
        BrokerError: none of 200 random candidates is free.
    """
    # Programs seed the module's own generator: two that did so alike would want the same ports.
    for port in random.SystemRandom().sample(_CANDIDATES, _TRIES):
        if port not in avoid and is_free(port):
            return port
    raise BrokerError(
        f"no free port between {_CANDIDATES.start} and {_CANDIDATES.stop - 1} on {HOST}; "
        "name one with --port"
    )


def former_or_free(former: int, avoid: frozenset[int] = frozenset()) -> int:
    """`former` if it can be used again (0: there is none), otherwise a free port.

    Raises:
        BrokerError: none of 200 random candidates is free.
    """
    return former if former and former not in avoid and is_free(former) else pick_free(avoid)


def require_free(port: int) -> int:
    """Return `port`, or raise the BrokerError that names it and, if known, its holder."""
    if is_free(port):
        return port
    holder = _holder(port)
    raise BrokerError(
        f"port {port} on {HOST} is taken by {holder or 'another process'}; "
        "stop that, or start the broker on another port (--port)"
    )


def accepts(port: int, timeout: float = 1.0) -> bool:
    """Whether something listens there and takes a connection within `timeout` seconds."""
    try:
        with socket.create_connection((HOST, port), timeout):
            return True
    except OSError:
        return False


def _holder(port: int) -> str | None:
    """`pid 123 (java)` of the listener; None if /proc does not show it (macOS, other users)."""
    inodes = {inode for table in ("tcp", "tcp6") for inode in _listeners(table, port)}
    if not inodes:
        return None
    sockets = {f"socket:[{inode}]" for inode in inodes}
    for process in Path("/proc").glob("[0-9]*"):
        if _open_files(process) & sockets:
            return f"pid {process.name} ({_name(process)})"
    return None


def _listeners(table: str, port: int) -> list[str]:
    try:
        rows = Path("/proc/net", table).read_text().splitlines()[1:]
    except OSError:
        return []
    fields = [row.split() for row in rows]
    return [f[9] for f in fields if f[3] == _LISTEN and int(f[1].rsplit(":", 1)[1], 16) == port]


def _open_files(process: Path) -> set[str]:
    found = set()
    # The process may end meanwhile, be another user's, or close a file before it is read.
    with contextlib.suppress(OSError):
        for entry in (process / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.add(str(entry.readlink()))
    return found


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "?"

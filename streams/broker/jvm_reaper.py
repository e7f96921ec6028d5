"""Ends the JVM when the process that started it is gone, however that process ended.

It is run by file path, with the standard library alone, so that it starts in milliseconds:

    python -I -S jvm_reaper.py OWNER_PID LOCK_FD OUTPUT_FILE -- COMMAND...

It writes `pid N` (or `error TEXT`) to its standard output. It ends with the child, with the child's
exit code (128 + signal number if a signal ended it). Its owner sends orders through its standard
input: `k` kills, `s` or the end of the stream stops (SIGTERM, then SIGKILL). A hard-killed owner
closes the stream, on Linux and macOS alike. The owner's pid is watched as well, since a forked
sibling may hold the stream open. Only after `d` (detach) may the owner leave and the child stay. If
the reaper itself is killed, Linux kills the child with it (prctl(2), PR_SET_PDEATHSIG; macOS has no
such means). The child inherits the lock's descriptor, so the data directory is in use for as long
as the JVM lives.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_OWNER_CHECK_SECONDS = 1.0
_STOP_GRACE_SECONDS = 20.0
_DETACH = b"d"


def main(arguments: list[str]) -> int:
    """Start the command, keep it, and return its exit code."""
    owner, lock_fd, output = int(arguments[0]), int(arguments[1]), arguments[2]
    events = _signals_as_events()
    try:
        child = _start(arguments[4:], lock_fd, output)
    except OSError as error:
        _report(f"error {error}")
        return 127
    _report(f"pid {child.pid}")
    order = _await_end_or_order(child, events, owner)
    code = _end(child, order)
    return code if code >= 0 else 128 - code


def _signals_as_events() -> socket.socket:
    """A socket that becomes readable at SIGTERM and SIGCHLD: one wait covers everything."""
    readable, writable = socket.socketpair()
    readable.setblocking(False)
    writable.setblocking(False)
    signal.set_wakeup_fd(writable.detach(), warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return readable


def _start(command: list[str], lock_fd: int, output: str) -> subprocess.Popen[bytes]:
    with open(output, "wb") as log:
        return subprocess.Popen(  # noqa: S603 - the owner's own command
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(lock_fd,),
            preexec_fn=_die_with_reaper() if sys.platform == "linux" else None,  # noqa: PLW1509
        )


def _die_with_reaper() -> Callable[[], None]:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    reaper = os.getpid()

    def after_fork() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != reaper:  # the reaper was killed before prctl took effect
            os._exit(1)

    return after_fork


def _report(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _await_end_or_order(child: subprocess.Popen[bytes], events: socket.socket, owner: int) -> bytes:
    """Block until the child ended, or an order to end it came; b"k" means at once."""
    orders, detached = sys.stdin.fileno(), False
    os.set_blocking(orders, False)
    with selectors.DefaultSelector() as selector:
        selector.register(events, selectors.EVENT_READ)
        selector.register(orders, selectors.EVENT_READ)
        while child.poll() is None:
            ready = {key.fileobj for key, _ in selector.select(_OWNER_CHECK_SECONDS)}
            order = None if detached else _order_of(owner, orders)
            if order == _DETACH:
                selector.unregister(orders)
                detached = True
            elif order is not None:
                return order
            if events in ready and signal.SIGTERM in events.recv(64):
                return b"s"
    return b""


def _order_of(owner: int, orders: int) -> bytes | None:
    """The owner's next order, b"" if it left without one, None if there is none yet."""
    left = os.getppid() != owner  # looked up before reading: its last order may be to detach
    try:
        return os.read(orders, 1)
    except BlockingIOError:
        return b"" if left else None


def _end(child: subprocess.Popen[bytes], order: bytes) -> int:
    if order == b"k":
        child.kill()
    elif child.poll() is None:
        child.terminate()
    try:
        return child.wait(_STOP_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

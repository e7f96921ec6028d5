"""One JVM kept by a reaper process: started, stopped, killed, and never left behind."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from streams.broker.jars import cache_dir
from streams.broker.java import environment
from streams.errors import BrokerError

_REAPER = Path(__file__).with_name("jvm_reaper.py")
# The reaper gives the JVM 20 s to stop before it kills it.
_STOP_SECONDS = 30.0
_START_SECONDS = 60.0


class KeptProcess:
    """A command that ends when this process ends, in whatever way (`streams.broker.jvm_reaper`).

    Only a released one stays.
    """

    def __init__(self, reaper: subprocess.Popen[bytes], pid: int) -> None:
        self._reaper = reaper
        self.pid = pid

    @classmethod
    def start(cls, command: Sequence[str], *, lock_fd: int, output: Path) -> KeptProcess:
        """Start the command in a session of its own: Ctrl-C in the terminal does not reach it.

        Its standard output and error go to `output`; `lock_fd` stays open in it.

        Raises:
            BrokerError: the command cannot be executed.
        """
        reaper = subprocess.Popen(  # noqa: S603 - our own interpreter
            [
                sys.executable,
                "-I",
                "-S",
                str(_REAPER),
                str(os.getpid()),
                str(lock_fd),
                str(output),
                "--",
                *command,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(lock_fd,),
            start_new_session=True,
            env=environment(),
            cwd=cache_dir(),
        )
        return cls(reaper, _first_report(reaper, command[0]))

    @property
    def running(self) -> bool:
        return self._reaper.poll() is None

    def wait(self, timeout: float | None = None) -> int | None:
        """Exit code once it ended (128 + n after signal n), or None after `timeout` seconds."""
        try:
            return self._reaper.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def ended_within(self, seconds: float) -> bool:
        """Wait up to `seconds` for its end; returns at once when it ends."""
        with selectors.DefaultSelector() as selector:
            selector.register(_pipe(self._reaper.stdout), selectors.EVENT_READ)
            return bool(selector.select(seconds))

    def stop(self) -> None:
        """Ask it to stop, and kill it if it does not; returns when it is gone."""
        self._order(b"s")

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        self._order(b"k")

    def release(self) -> None:
        """Detach the process: it stays, and this object no longer controls it."""
        self._send(b"d")
        self._close()
        # It stays alive on purpose: without this, the interpreter would warn of a lost child.
        self._reaper.returncode = 0

    def _order(self, order: bytes) -> None:
        self._send(order)
        if self.wait(_STOP_SECONDS) is None:
            self._reaper.kill()
            self._reaper.wait()
        self._close()

    def _send(self, order: bytes) -> None:
        # A reaper that has ended reads nothing more.
        with contextlib.suppress(BrokenPipeError, ValueError):
            os.write(_pipe(self._reaper.stdin).fileno(), order)

    def _close(self) -> None:
        for pipe in (self._reaper.stdin, self._reaper.stdout):
            _pipe(pipe).close()


def _first_report(reaper: subprocess.Popen[bytes], program: str) -> int:
    """The child's pid from the reaper's first line: `pid N` or `error TEXT`."""
    with selectors.DefaultSelector() as selector:
        selector.register(_pipe(reaper.stdout), selectors.EVENT_READ)
        answered = selector.select(_START_SECONDS)
    line = _pipe(reaper.stdout).readline().decode() if answered else "error the reaper is silent"
    word, _, rest = line.strip().partition(" ")
    if word == "pid":
        return int(rest)
    reaper.kill()
    reaper.communicate()
    raise BrokerError(
        f"cannot start {program}: {rest or 'the reaper process ended'}; check that it may be "
        "executed and that the machine allows more processes"
    )


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101 - both were asked for at start
    return pipe

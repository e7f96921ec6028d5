"""A child process that speaks with its worker over a socket, and that can be killed at any time."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from streams.process.daemon_thread import DaemonThread
from streams.worker.blocking.messages import MOST_BYTES

_PROGRAM = str(Path(__file__).with_name("start.py"))
_SECRETS = "TIDEGATE_"
"""What the names of the worker's own settings begin with: keys and tokens are among them."""


class Process:
    """A child in a group of its own. One thread watches it, and closes all once it has ended."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        life, self._life = os.pipe()
        try:
            self._popen = _started(theirs.fileno(), life)
        except BaseException:
            self._socket.close()
            os.close(self._life)
            raise
        finally:
            theirs.close()
            os.close(life)
        self._connection = Connection(self._socket.fileno())
        self._speaking, self._ending = threading.Lock(), threading.Lock()
        self._has_ended = threading.Event()
        try:
            DaemonThread("process", self._watch).start()
        except RuntimeError:  # there is no thread for it
            self.kill()
            self._reap()
            raise
        with suppress(OSError):  # it has ended already: the first exchange says so
            self._connection.send(sys.path)

    def exchange(self, message: object) -> Any:
        """Send a message and return the answer; this blocks.

        Raises:
            ProcessEnded: there is none, because the process has ended.
        """
        try:
            with self._speaking:
                self._connection.send(message)
                said = self._connection.recv_bytes(MOST_BYTES)
        except (EOFError, OSError) as error:
            raise ProcessEnded(self._how_it_ended()) from error
        return ForkingPickler.loads(said)

    def is_quiet(self) -> bool:
        """Whether it lives and says nothing, as it should between two runs."""
        try:
            with self._speaking:
                return not self._connection.poll(0)
        except OSError:
            return False

    def kill(self) -> None:
        """End it and all that it has started, unless that has left its group; this blocks not."""
        self._kill_group()
        self._shut()

    def _watch(self) -> None:
        with suppress(ChildProcessError):  # a handler of the worker waited for any child, this one
            os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
            self._kill_group()  # what it left; its number is not given away before it is reaped
        self._reap()
        with suppress(ChildProcessError):  # the first process of a container is given its orphans
            while True:
                os.waitpid(-self._popen.pid, 0)

    def _reap(self) -> None:
        with self._ending:
            self._popen.wait()
        self._has_ended.set()
        self._shut()
        with self._speaking, self._ending:  # nobody uses the number of a file that is closed
            self._socket.detach()
            self._connection.close()
            os.close(self._life)

    def _shut(self) -> None:
        """End each wait for it, whoever else holds the other end. What it has said can be read."""
        with self._ending, suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _kill_group(self) -> None:
        with self._ending, suppress(ProcessLookupError, PermissionError):
            if self._popen.returncode is None:
                os.killpg(self._popen.pid, signal.SIGKILL)

    def _how_it_ended(self) -> str:
        if not self._has_ended.wait(5):
            return "the process of the handler closed its connection"
        code = self._popen.returncode
        if code < 0:
            names = {each.value: each.name for each in signal.Signals}
            name = names.get(-code, f"signal {-code}")
            return f"the process of the handler was ended by {name}: out of memory, perhaps"
        return f"the process of the handler ended by itself with exit code {code}"


def _started(connection: int, life: int) -> subprocess.Popen[bytes]:
    environment = {n: v for n, v in os.environ.items() if not n.startswith(_SECRETS)}
    return subprocess.Popen(  # noqa: S603  our own interpreter and program
        [sys.executable, "-P", _PROGRAM, str(connection), str(life)],
        pass_fds=(connection, life),
        stdin=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )


class ProcessEnded(Exception):
    """The process of a handler ended in the middle of its run: the message says how."""

"""A supervised process ends when its supervisor does, however the supervisor ended.

The supervisor gives each child the read end of a pipe, and holds the only write end. The system
closes that end with the supervisor, even after SIGKILL, on Linux and macOS alike. So no signal must
be requested, and no pid watched.
"""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from streams.errors import ConfigError
from streams.process.daemon_thread import DaemonThread

PARENT_FD = "TIDEGATE_PARENT_FD"
"""Environment variable: the number of the inherited descriptor."""

LAST_WORDS_SECONDS = 2.0
"""How long such a process has from its own SIGTERM until it is ended in any case."""


def end_with_parent() -> None:
    """Watch the pipe that `TIDEGATE_PARENT_FD` names, on a daemon thread; unset, do nothing.

    Raises:
        ConfigError: the variable names no open descriptor.
    """
    named = os.environ.pop(PARENT_FD, None)
    if named is None:
        return
    try:
        descriptor = int(named)
        os.set_inheritable(descriptor, False)
    except (ValueError, OSError) as error:
        raise ConfigError(f"{PARENT_FD}={named!r} is no open descriptor: unset it") from error
    DaemonThread("parent", partial(_await_end, descriptor)).start()


def _await_end(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LAST_WORDS_SECONDS)
    if os.getpgrp() == os.getpid():  # end what this process started, too
        os.killpg(0, signal.SIGKILL)
    os._exit(1)

"""One child process: its specification, how it is started, and how its end is described."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Mapping
from dataclasses import dataclass, field

from streams.dev.parent_death import PARENT_FD


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A process to keep running.

    `env` is its whole environment, `ready_url` answers 200 when it is ready, and it inherits
    `descriptors`.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)  # contains secrets
    ready_url: str
    descriptors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Child:
    """A started process and the stream of its standard output and error together."""

    process: Process
    lines: asyncio.StreamReader

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process.returncode is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, unless it has ended."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    def clear_group(self) -> None:
        """SIGKILL the process and what it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


async def spawn(spec: ProcessSpec, parent_fd: int) -> Child:
    """Start a process in its own group; it ends when the other end of `parent_fd` closes.

    Raises:
        OSError: the program cannot be started.
    """
    # Use our own pipe, not asyncio's: its `wait` would last until the last grandchild that
    # inherited the pipe has closed it.
    readable, writable = os.pipe()
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(readable, "rb", 0)
    )
    try:
        process = await asyncio.create_subprocess_exec(
            *spec.argv,
            stdin=DEVNULL,
            stdout=writable,
            stderr=writable,
            env={**spec.env, PARENT_FD: str(parent_fd)},
            pass_fds=(parent_fd, *spec.descriptors),
            start_new_session=True,
        )
    finally:
        os.close(writable)
    return Child(process, lines)


def describe_end(returncode: int) -> str:
    """`ended with exit code 1`, or `was ended by SIGKILL`."""
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    try:
        return f"was ended by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was ended by signal {-returncode}"

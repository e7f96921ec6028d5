"""Keeps child processes running: starts them, restarts those that die, stops them in order.

Children are given in waves, in the order in which they are to be stopped; they are all started at
once. None outlives this process, even if it is killed (`parent_death.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from time import monotonic

from streams.dev.output import Output
from streams.dev.process import Child, ProcessSpec, describe_end, spawn
from streams.dev.readiness import unready
from streams.errors import ConfigError

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 5.0
SOUND_AFTER_SECONDS = 10.0
"""A process that lived this long is restarted as if it had never failed before."""

_REFUSED = 2
"""Exit code of a command whose flags, settings or files are wrong."""

_KEPT_BACK_SECONDS = 2.0
_LAST_LINES_SECONDS = 1.0
"""How long to wait for the end of a dead child's output. A process that the child started outside
its group, and that still lives, holds the output open."""
_POLL_SECONDS = 0.1
_SAY_WAITING_SECONDS = 15.0
NAME = "supervisor"


@dataclass(slots=True, eq=False)
class _Kept:
    """The current state of one child."""

    spec: ProcessSpec
    child: Child | None = None
    task: asyncio.Task[None] | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    refused: bool = False
    renewed: bool = False
    """Whether its end was ordered by `restart`."""


class Supervisor:
    """Runs the processes of `waves`; `changed` is called after every start and end of one.

    `progress` gets each step of `stop` as text. `grace_seconds` limits `stop` as a whole:
    children that are not gone by then are killed.
    """

    def __init__(
        self,
        waves: Sequence[Sequence[ProcessSpec]],
        output: Output,
        *,
        grace_seconds: float = 30.0,
        changed: Callable[[], None] = lambda: None,
        progress: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._waves = [[_Kept(spec) for spec in wave] for wave in waves]
        self._output = output
        self._grace = grace_seconds
        self._changed = changed
        self._progress = progress
        self._parent_fds: tuple[int, int] | None = None
        self._all_ready = False
        self._pumps: set[asyncio.Task[None]] = set()

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the children that run now, by name."""
        return {k.spec.name: k.child.pid for k in self._kept if k.child and k.child.running}

    @property
    def _kept(self) -> list[_Kept]:
        return [kept for wave in self._waves for kept in wave]

    def start(self) -> None:
        """Start every child; returns at once."""
        self._parent_fds = os.pipe()
        for kept in self._kept:
            kept.task = asyncio.create_task(self._keep(kept, self._parent_fds[0]))

    async def ready(self) -> None:
        """Return once every child answers 200 at its `ready_url`, all in one round.

        Raises:
            ConfigError: a child refuses its flags, settings or files, so restarting is no remedy.
        """
        urls = {kept.spec.name: kept.spec.ready_url for kept in self._kept}
        say_at = monotonic() + _SAY_WAITING_SECONDS
        while waiting := await unready(urls):
            for kept in self._kept:
                if kept.refused:
                    raise ConfigError(f"{kept.spec.name} cannot start: its error stands above")
            if monotonic() > say_at:
                self._say(f"still waiting for {', '.join(waiting)}")
                say_at = monotonic() + _SAY_WAITING_SECONDS
            await asyncio.sleep(_POLL_SECONDS)
        self._all_ready = True

    async def restart(self, names: Collection[str]) -> None:
        """End these children as `stop` does, and return once their successors are ready."""
        asked = [kept for kept in self._kept if kept.spec.name in names]
        for kept in asked:
            kept.renewed = True
            kept.woken.set()
            if kept.child:
                kept.child.signal(signal.SIGTERM)
        urls = {kept.spec.name: kept.spec.ready_url for kept in asked}
        while True:
            if not any(kept.renewed for kept in asked) and not await unready(urls):
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def stop(self) -> None:
        """SIGTERM each wave once the one before is gone; SIGKILL whatever remains.

        A second call does nothing.
        """
        deadline = monotonic() + self._grace
        for index, wave in enumerate(self._waves):
            later = len(self._waves) - index - 1
            await self._stop_wave(wave, deadline - later * _KEPT_BACK_SECONDS)
        for pump in self._pumps:
            pump.cancel()
        if self._parent_fds:
            for descriptor in self._parent_fds:
                os.close(descriptor)
            self._parent_fds = None

    def kill(self) -> None:
        """SIGKILL every child and everything it started, now."""
        for kept in self._kept:
            kept.stopping.set()
            kept.woken.set()
            if kept.child:
                kept.child.clear_group()

    async def _stop_wave(self, wave: Sequence[_Kept], deadline: float) -> None:
        for kept in wave:
            kept.stopping.set()
            kept.woken.set()
            if kept.child:
                kept.child.signal(signal.SIGTERM)
        tasks = [kept.task for kept in wave if kept.task and not kept.task.done()]
        if not tasks:
            return
        self._progress(f"stopping {', '.join(kept.spec.name for kept in wave)}")
        await asyncio.wait(tasks, timeout=max(0.0, deadline - monotonic()))
        for kept in wave:
            if kept.child:
                self._say(f"{kept.spec.name} did not end in time: killing it")
                kept.child.clear_group()
        await asyncio.wait(tasks)

    async def _keep(self, kept: _Kept, parent_fd: int) -> None:
        failures = 0
        while not kept.stopping.is_set():
            kept.renewed = False
            kept.woken.clear()
            started = monotonic()
            end = await self._run(kept, parent_fd)
            if kept.stopping.is_set():
                return
            if kept.renewed:
                failures = 0
                continue
            failures = 0 if monotonic() - started >= SOUND_AFTER_SECONDS else failures
            pause = pause_after(failures)
            failures += 1
            self._say(f"{kept.spec.name} {end}; starting it again in {pause:g} s")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(kept.woken.wait(), pause)

    async def _run(self, kept: _Kept, parent_fd: int) -> str:
        """Run a child until it ends; returns how it ended."""
        try:
            child = await spawn(kept.spec, parent_fd)
        except OSError as error:
            return f"cannot be started ({error})"
        kept.child = child
        if kept.stopping.is_set() or kept.renewed:  # ordered while it was being started
            child.signal(signal.SIGTERM)
        self._changed()
        pump = asyncio.create_task(self._output.pump(kept.spec.name, child.lines))
        self._pumps.add(pump)
        pump.add_done_callback(self._pumps.discard)
        code = await child.process.wait()
        child.clear_group()
        await asyncio.wait({pump}, timeout=_LAST_LINES_SECONDS)
        kept.child = None
        kept.refused = code == _REFUSED and not self._all_ready
        self._changed()
        return describe_end(code)

    def _say(self, text: str) -> None:
        self._output.line(NAME, text)


def pause_after(failures: int) -> float:
    """Seconds before the next start, after this many short lives in a row."""
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(failures, 10))

"""How a process is struck, and how what the strike interrupted is watched."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable
from dataclasses import replace

from streams.demo.run.kill import RECOVERY_SECONDS, Kill
from streams.dev.pipeline import Pipeline

CHANCE_SECONDS = 10.0
"""How long a fault waits for work to strike; less for work that only deliveries bring."""


class Strikes:
    """The SIGKILLs of one run; `kills` are those that landed."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._watched: list[asyncio.Task[Kill]] = []
        self.kills: list[Kill] = []

    async def recovered(self) -> list[Kill]:
        """Every kill that landed, once its outcome is known."""
        return list(await asyncio.gather(*self._watched))

    def _strike(self, name: str) -> tuple[int, float]:
        """The killed pid, 0 if no process runs, and the time just before the kill."""
        pid, at = self._pipeline.pid(name), time.time()
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        return pid or 0, at

    def _process_of(self, pid: int) -> str | None:
        names = (member.name for member in self._pipeline.members)
        return next((name for name in names if self._pipeline.pid(name) == pid), None)

    def _watch(self, kill: Kill, recovery: Awaitable[bool]) -> None:
        async def watch() -> Kill:
            try:
                back = await asyncio.wait_for(recovery, RECOVERY_SECONDS)
            except TimeoutError:
                back = False
            return replace(kill, recovered_after=time.time() - kill.at if back else None)

        self.kills.append(kill)
        self._watched.append(asyncio.create_task(watch()))


def counted(number: int, thing: str) -> str:
    """A number of things in words."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"

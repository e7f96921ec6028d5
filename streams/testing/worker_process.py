"""A worker's process in memory: an event loop with the product's own workers in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from streams.link.answering import Answering
from streams.link.bodies import Bodies
from streams.link.live import Publishing
from streams.link.sealing import Sealing
from streams.testing.credentials import FakeCredentials
from streams.testing.link import Watch, Wire
from streams.testing.memory_store import MemoryStore
from streams.testing.pipeline_in_memory import PipelineInMemory
from streams.testing.virtual_loop import VirtualLoop
from streams.topology.model import Topology
from streams.vault.keyring import DataKeyring
from streams.worker.app import App
from streams.worker.link.link import Link
from streams.worker.worker import Worker, WorkerSpec

INSTANCE = "bench"
_LAST_ROUNDS = 3
"""How often a handler that is being ended may go on to wait for something else."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a worker finds around it: the same for every process of a bench."""

    topology: Topology
    pipeline: PipelineInMemory
    keyring: DataKeyring
    clock: Callable[[], float]
    watch: Watch
    credentials: FakeCredentials
    store: MemoryStore

    def answering(self) -> Answering:
        """What answers the requests of one process."""
        pipeline, keyring = self.pipeline, self.keyring
        return Answering(
            Bodies(pipeline, keyring, pipeline.fetch),
            Sealing(pipeline, keyring),
            Publishing(pipeline, pipeline, self.topology.partitions),
        )


class Plug:
    """`Connects` for one worker: one wire at a time."""

    def __init__(self, wire: Callable[[Link], Wire]) -> None:
        self._wire = wire
        self._link: Link | None = None
        self.now: Wire | None = None

    def start(self, link: Link, failed: Callable[[Exception], None]) -> None:
        self._link = link
        self.connect()

    def close(self) -> None:
        """Dial no more: the process is gone."""
        self._link = None
        if self.now is not None:
            self.now.end()

    def cut(self) -> None:
        """Let nothing through, either way."""
        if self.now is not None:
            self.now.close("the test has cut it")
            self.now = None

    def dial_again(self) -> None:
        """Dial if the pipeline has ended the connection; one that the test has cut stays cut."""
        if self.now is not None:
            self.connect()

    def connect(self) -> None:
        """Dial, unless there is a connection."""
        if (self.now is None or not self.now.is_open) and self._link is not None:
            self.now = self._wire(self._link)
            self._link.opened(self.now)


class WorkerProcess:
    """One worker for each pool, in one loop.

    A process that is killed runs no further line: its loop is just not run again.
    """

    def __init__(self, app: App, around: Surroundings) -> None:
        self._clock = around.clock
        self._around = around
        self.is_dead = False
        self.loop = VirtualLoop(self._now)
        self._answering = around.answering()
        self._plugs = {pool: Plug(self._wire) for pool in around.topology.pools}
        self._workers = self.loop.run_until_complete(self._start(app))

    def tick(self) -> None:
        """Do what is due: dial a pipeline that died, and send beats."""
        for plug in self._plugs.values():
            plug.dial_again()
        for worker in self._workers:
            worker.link.tick()

    def exchange(self) -> bool:
        """Pass on what workers and pipeline have for each other; whether there was anything."""
        wires = [plug.now for plug in self._plugs.values() if plug.now is not None]
        moved = [wire.exchange(self._around.pipeline.flow) for wire in wires]
        return any(moved)

    def cut(self) -> None:
        """Disconnect it from the pipeline."""
        for plug in self._plugs.values():
            plug.cut()

    def mend(self) -> None:
        """Connect it again."""
        for plug in self._plugs.values():
            plug.connect()

    def kill(self) -> None:
        """Let nothing of it be heard any more, and no time pass in it; run its loop no more."""
        self.is_dead = True
        died_at = self._clock()
        self._clock = lambda: died_at
        for plug in self._plugs.values():
            plug.close()
        if self.loop.is_running():
            self.loop.stop()  # what is ready to run now runs no more

    def bury(self, deadline: float) -> None:
        """Release what a killed process holds: its tasks are cancelled now, and nobody hears it."""
        for _ in range(_LAST_ROUNDS):
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.run_until_idle(deadline)
        for task in asyncio.all_tasks(self.loop):
            with suppress(BaseException):
                task.get_coro().close()
        self.loop.close()

    def _now(self) -> float:
        return self._clock()

    async def _start(self, app: App) -> list[Worker]:
        workers = [self._worker(app, pool) for pool in self._plugs]
        for worker in workers:
            worker.start()
        return workers

    def _worker(self, app: App, pool: str) -> Worker:
        return Worker(
            app,
            self._plugs[pool],
            self._around.topology,
            WorkerSpec(INSTANCE, pool),
            sources=self._around.credentials.sources(app),
            store=self._around.store,
            clock=self._now,
        )

    def _wire(self, link: Link) -> Wire:
        around = self._around
        return Wire(link, around.pipeline.owner, self._answering, around.watch, self.loop)

"""A worker's process in memory: an event loop with the product's own workers in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from streams.runtime.processor import Record
from streams.testing.credentials import FakeCredentials
from streams.testing.link import Link, Sent, Watch
from streams.testing.memory_store import MemoryStore
from streams.testing.virtual_loop import VirtualLoop
from streams.topology.model import Topology
from streams.vault.keyring import DataKeyring
from streams.worker.app import App
from streams.worker.worker import Worker, WorkerSpec

INSTANCE = "bench"
_LAST_ROUNDS = 3
"""How often a handler that is being ended may go on to wait for something else."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a worker finds around it: the same for every process of a bench."""

    topology: Topology
    cluster_key: bytes
    keyring: DataKeyring
    clock: Callable[[], float]
    send: Callable[[Sent], None]
    payloads: Callable[[], list[Record]]
    watch: Watch
    credentials: FakeCredentials
    store: MemoryStore


class WorkerProcess:
    """One worker for each pool, in one loop. `links` are their connections, by pool.

    A process that is killed runs no further line: its loop is just not run again.
    """

    def __init__(self, app: App, around: Surroundings) -> None:
        self._clock = around.clock
        self.is_dead = False
        self.loop = VirtualLoop(self._now)
        self.links: Mapping[str, Link] = {
            pool: Link(around.send, around.payloads, around.watch) for pool in around.topology.pools
        }
        self._workers = self.loop.run_until_complete(self._start(app, around))

    def beat(self) -> None:
        """Send the heartbeats that are due."""
        for worker in self._workers:
            worker.heartbeater.beat()

    def cut(self) -> None:
        """Disconnect it from Kafka."""
        for link in self.links.values():
            link.cut()

    def mend(self) -> None:
        """Connect it again."""
        for link in self.links.values():
            link.mend()
        self.beat()

    def kill(self) -> None:
        """Let nothing of it be heard any more, and no time pass in it; run its loop no more."""
        self.is_dead = True
        died_at = self._clock()
        self._clock = lambda: died_at
        for link in self.links.values():
            link.close()

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

    async def _start(self, app: App, around: Surroundings) -> list[Worker]:
        workers = [self._worker(app, around, pool) for pool in self.links]
        for worker in workers:
            worker.start()
        return workers

    def _worker(self, app: App, around: Surroundings, pool: str) -> Worker:
        return Worker(
            app,
            self.links[pool],
            around.topology,
            WorkerSpec(INSTANCE, pool),
            cluster_key=around.cluster_key,
            book=around.keyring,
            sources=around.credentials.sources(app),
            store=around.store,
            clock=self._now,
        )

"""Assembles a worker's parts over any transport."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from uuid_utils import uuid7

from streams.artifacts.store import ArtifactStore
from streams.process.boot_clock import boot_seconds
from streams.process.daemon_thread import DaemonThread, in_daemon_thread
from streams.process.wall_clock import wall_ms
from streams.redaction.redaction import Redaction
from streams.serde.codec import COMMAND
from streams.serde.ids import new_id
from streams.serde.records import Command, DeclareSchedules
from streams.serde.run_ends import RELEASED
from streams.topology.model import Topology
from streams.vault.keyring import DataKeyring
from streams.worker.app import App
from streams.worker.credentials.credentials import Credentials, Sources
from streams.worker.credentials.shipped import shipped
from streams.worker.handler.run_result import RunResult
from streams.worker.handler.watchdog import Watchdog
from streams.worker.lease.heartbeater import Heartbeater, Identity
from streams.worker.lease.held_leases import GRACE_SECONDS, Held, HeldLeases
from streams.worker.lease.notices import Notices
from streams.worker.lease.receiver import LeaseReceiver
from streams.worker.run_executor import RunExecutor
from streams.worker.transport.contract import Incoming, Transport
from streams.worker.transport.replies import Replies
from streams.worker.transport.retrying_sender import Letter, RetryingSender
from streams.worker.typed import announcement

log = structlog.get_logger(__name__)

DRAIN_SECONDS = 20.0
LEAVE_SECONDS = 3.0
"""How long the last heartbeats may take to be acknowledged."""

_FULL_STOP_SECONDS = 0.5
"""The same, once the transport has failed."""

_NAMED = 5


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """A worker's place: its instance, pool and number of slots."""

    instance: str
    pool: str = "default"
    slots: int = 20

    @property
    def group(self) -> str:
        """The consumer group of the pool's workers."""
        return f"worker-{self.pool}"


class Worker:
    """One worker, made and run in one event loop. It is the transport's `Inbox`."""

    def __init__(
        self,
        app: App,
        transport: Transport,
        topology: Topology,
        place: WorkerSpec,
        *,
        cluster_key: bytes,
        older_keys: tuple[bytes, ...] = (),
        book: DataKeyring,
        redaction: Redaction | None = None,
        sources: Sources | None = None,
        store: ArtifactStore | None = None,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        # Include the pool, so that a worker of another pool does not count as an earlier boot.
        self.id = f"{place.pool}-{place.instance}/{uuid7()}"
        self._app = app
        self._transport = transport
        self._topology = topology
        self._loop = asyncio.get_running_loop()
        self._failure: asyncio.Future[None] = self._loop.create_future()
        self._ends_in_order = True
        leases, partitions = topology.leases, topology.partitions
        self.held_leases = HeldLeases(place.slots, leases.margin_seconds, partitions, clock)
        self._sender = RetryingSender(transport, clock)
        identity = Identity(self.id, place.pool, app.handlers())
        self.heartbeater = Heartbeater(
            identity, self.held_leases, transport, partitions, leases, clock
        )
        self.notices = Notices(self.heartbeater, self.held_leases, clock)
        self._replies = Replies(
            self.id, partitions, self._sender, self._loop, self.notices.by_kind()
        )
        self._receiver = LeaseReceiver(
            (cluster_key, *older_keys),
            partitions,
            self.held_leases,
            self.heartbeater,
            self._sender,
            self._taken,
            clock,
        )
        rules = topology.redaction
        self.redaction = redaction or Redaction(rules.fields, rules.patterns, rules.presets)
        self.executor = RunExecutor(
            app,
            topology,
            transport,
            self._sender,
            self._replies,
            self.held_leases,
            self.heartbeater,
            book,
            self.redaction,
            Credentials(
                sources or Sources(topology.credentials.get, shipped()),
                self.redaction.secrets,
                clock,
            ),
            store,
            clock,
        )
        self.watchdog = Watchdog(
            self._loop,
            self.held_leases,
            self.heartbeater,
            clock,
            failed=self.failed,
            worn=self.worn,
        )

    def start(self) -> None:
        """Open the transport. Heartbeats are sent by `serve`, or by calling `heartbeater.beat`."""
        self._transport.start(self)
        self._declare_schedules()
        types = announcement.letter(self._app.announced(), self._topology.partitions)
        self._sender.post(types, lambda: math.inf)

    async def serve(self, stop: asyncio.Event, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Work until `stop` is set, then drain.

        Raises:
            TidegateError: the transport cannot go on after this error.
        """
        every = self._topology.leases.heartbeat_seconds
        DaemonThread("heartbeats", partial(self.heartbeater.run, every), self.failed).start()
        self.watchdog.tick()
        DaemonThread("watchdog", self.watchdog.run, self.failed).start()
        self.start()
        stopped = asyncio.create_task(stop.wait())
        try:
            either: set[asyncio.Future[Any]] = {stopped, self._failure}
            await asyncio.wait(either, return_when="FIRST_COMPLETED")
            await self.drain(drain_seconds if self._ends_in_order else 0)
        finally:
            stopped.cancel()
            self.watchdog.stop()
            self.executor.close()
            await self._leave()
            await in_daemon_thread(self._transport.close)
        if self._failure.done():
            self._failure.result()

    async def drain(self, seconds: float) -> None:
        """Take no more leases, give running handlers this long, and release the rest."""
        with self.held_leases.lock:
            self.held_leases.draining = True
            self.heartbeater.tell()
        self.held_leases.changed()
        await asyncio.sleep(0)  # let the leases begin that the readers took before
        running = self.executor.running
        if running:
            log.info("draining", running=len(running), seconds=round(seconds), jobs=self._named())
            await asyncio.wait(running, timeout=seconds)
        for session in self._replies.sessions():
            session.stop(RunResult(RELEASED, error="the worker shut down"))
        if running:
            await asyncio.wait(running, timeout=GRACE_SECONDS + 1)

    def _named(self) -> str:
        """The jobs that run, the first few of them by name."""
        jobs = [f"{held.lease.job_id} {held.lease.type}" for held in self.held_leases.running()]
        more = f" and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else ""
        return ", ".join(jobs[:_NAMED]) + more

    @property
    def unready(self) -> str | None:
        """Why leases cannot reach this worker now; None if they can."""
        place = f"jobs.work.{self.heartbeater.identity.pool}"
        if self.held_leases.draining:
            return "the worker shuts down"
        if not self.held_leases.assigned:
            return f"no partition of {place} is assigned: start no more workers than it has"
        if not self.heartbeater.heard:
            return "no heartbeat was acknowledged lately: see whether the broker answers"
        return self.notices.undeclared

    def assigned(self, partition: int | None) -> None:
        self.heartbeater.announce(partition)

    def leased(self, record: Incoming) -> None:
        self._receiver.receive(record)

    def replied(self, record: Incoming) -> None:
        self._replies.deliver(record)

    def failed(self, error: Exception) -> None:
        self._end(error, in_order=False)

    def worn(self, error: Exception) -> None:
        """End as at a stop: the process works, but must not go on for ever."""
        self._end(error, in_order=True)

    def _end(self, error: Exception, *, in_order: bool) -> None:
        def end() -> None:
            if not self._failure.done():
                self._ends_in_order = in_order
                self._failure.set_exception(error)

        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(end)

    def _taken(self, held: Held) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.executor.begin, held)

    def _declare_schedules(self) -> None:
        """Send every partition the application's schedules, which replace its former ones."""
        body = DeclareSchedules(self._app.name, self._app.schedules())
        key, what = self._app.name.encode(), "the application's schedules"
        for partition in range(self._topology.partitions):
            sent = Command(new_id("cmd"), "", "", 0, wall_ms(), body)
            letter = Letter("jobs.commands", key, COMMAND.encode(sent), partition, what)
            self._sender.post(letter, lambda: math.inf)

    async def _leave(self) -> None:
        """Stop getting leases, after every run has reported its end."""
        seconds = LEAVE_SECONDS if self._ends_in_order else _FULL_STOP_SECONDS
        await self.heartbeater.leave(self._sender, seconds)

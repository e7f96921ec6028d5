"""Assembles a worker's parts over any connections to owners of partitions."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from uuid_utils import uuid7

from streams.artifacts.store import ArtifactStore
from streams.errors import TransientError
from streams.process.boot_clock import boot_seconds
from streams.process.daemon_thread import DaemonThread, in_daemon_thread
from streams.redaction.redaction import Redaction
from streams.serde.link.messages import Announce, Welcome
from streams.serde.records import Command, DeclareSchedules, Reply
from streams.serde.run_ends import RELEASED
from streams.topology.model import Topology
from streams.worker.app import App
from streams.worker.credentials.credentials import Credentials, Sources
from streams.worker.credentials.shipped import shipped
from streams.worker.handler.run_result import RunResult
from streams.worker.handler.watchdog import Watchdog
from streams.worker.lease.held_leases import GRACE_SECONDS, Held, HeldLeases
from streams.worker.link.contract import Connects
from streams.worker.link.identity import Identity
from streams.worker.link.link import Link
from streams.worker.link.promise import promise
from streams.worker.link.replies import Replies
from streams.worker.link.requests import Question
from streams.worker.run_executor import RunExecutor

log = structlog.get_logger(__name__)

DRAIN_SECONDS = 20.0
LEAVE_SECONDS = 3.0
"""How long the last commands may take to be acknowledged."""

_FULL_STOP_SECONDS = 0.5
"""The same, once the worker has failed."""

_NAMED = 5


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """A worker's place: its instance, pool and number of slots."""

    instance: str
    pool: str = "default"
    slots: int = 20


class Worker:
    """One worker, made and run in one event loop. It is the `Inbox` of its link."""

    def __init__(
        self,
        app: App,
        connects: Connects,
        topology: Topology,
        place: WorkerSpec,
        *,
        redaction: Redaction | None = None,
        sources: Sources | None = None,
        store: ArtifactStore | None = None,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        self._app = app
        self._connects = connects
        self._topology = topology
        self._loop = asyncio.get_running_loop()
        self._failure: asyncio.Future[None] = self._loop.create_future()
        self._ends_in_order = True
        self._declared = False
        self.held_leases = HeldLeases(place.slots, topology.leases.margin_seconds, clock)
        identity = Identity(place.instance, str(uuid7()), place.pool, app.handlers())
        self.link = Link(identity, self.held_leases, self, clock)
        self.link.welcomed = self._declare_schedules
        self._replies = Replies(self._loop)
        rules = topology.redaction
        self.redaction = redaction or Redaction(rules.fields, rules.patterns, rules.presets)
        self.executor = RunExecutor(
            app,
            topology,
            self.link,
            self._replies,
            self.held_leases,
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
            self.link,
            clock,
            failed=self.failed,
            worn=self.worn,
        )

    def start(self) -> None:
        """Connect to the owners of partitions."""
        types, late = self._app.announced(), TransientError("no owner stores the job types")
        announced = Question(lambda number: Announce(number, types), None, lambda: math.inf, late)
        self.link.ask(announced, _say_refusal)
        self._connects.start(self.link, self.failed)

    async def serve(self, stop: asyncio.Event, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Work until `stop` is set, then drain.

        Raises:
            TidegateError: the worker cannot go on after this error.
        """
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
            await in_daemon_thread(self._connects.close)
        if self._failure.done():
            self._failure.result()

    async def drain(self, seconds: float) -> None:
        """Take no more leases, give running handlers this long, and release the rest."""
        with self.held_leases.lock:
            self.held_leases.draining = True
            self.link.beat()
        self.held_leases.changed()
        # A lease that was on its way is declined: otherwise its job would wait for a whole term.
        await asyncio.wait({promise(self.link.hear_out)}, timeout=LEAVE_SECONDS if seconds else 0)
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
        if self.held_leases.draining:
            return "the worker shuts down"
        return self.link.readiness.why

    def leased(self, held: Held) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.executor.begin, held)

    def replied(self, reply: Reply) -> None:
        self._replies.deliver(reply)

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

    def _declare_schedules(self, welcome: Welcome) -> None:
        """Send every partition the application's schedules, which replace its former ones."""
        if self._declared:
            return
        self._declared = True
        body = DeclareSchedules(self._app.name, self._app.schedules())
        for partition in range(welcome.partitions):
            command = Command("", "", "", 0, 0, body)
            self.link.post(partition, command, lambda: math.inf)

    async def _leave(self) -> None:
        """Wait until every run's end is acknowledged."""
        seconds = LEAVE_SECONDS if self._ends_in_order else _FULL_STOP_SECONDS
        said = promise(self.link.when_empty)
        done, _ = await asyncio.wait({said}, timeout=seconds)
        if not done:
            log.warning("the owners have not acknowledged everything", seconds=seconds)


def _say_refusal(result: object) -> None:
    if isinstance(result, Exception):
        log.error("the job types of this application are not announced", reason=str(result))

"""Assembles a worker's parts over any transport."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from opentelemetry.trace import Span
from uuid_utils import uuid7

from streams.errors import LeaseLost
from streams.process.boot_clock import boot_seconds
from streams.process.daemon_thread import DaemonThread, in_daemon_thread
from streams.process.wall_clock import wall_ms
from streams.serde.codec import COMMAND
from streams.serde.ids import new_id
from streams.serde.records import Command, DeclareSchedules, Ended
from streams.serde.run_ends import LOST, RELEASED
from streams.topology.model import Topology
from streams.tracing.spans import exemplar
from streams.vault.keyring import DataKeyring
from streams.worker import metrics
from streams.worker.app import App
from streams.worker.handler.approvals import Approvals
from streams.worker.handler.children import Children
from streams.worker.handler.claiming import Claimant
from streams.worker.handler.context import Context
from streams.worker.handler.effects import Effects
from streams.worker.handler.ended_runs import EndedRuns
from streams.worker.handler.execution import Execution
from streams.worker.handler.gathering import Gathering
from streams.worker.handler.history import History
from streams.worker.handler.run_result import RunResult, raised
from streams.worker.handler.run_session import RunSession
from streams.worker.handler.run_span import note_result, run_span
from streams.worker.handler.steps import Steps
from streams.worker.handler.wait_calls import WaitCalls
from streams.worker.handler.waits import Waits
from streams.worker.handler.watchdog import Watchdog
from streams.worker.lease.heartbeater import Heartbeater, Identity
from streams.worker.lease.held_leases import GRACE_SECONDS, Held, HeldLeases
from streams.worker.lease.isolation import Alone
from streams.worker.lease.notices import Notices
from streams.worker.lease.receiver import LeaseReceiver
from streams.worker.transport.contract import Incoming, Transport
from streams.worker.transport.replies import Replies
from streams.worker.transport.retrying_sender import Letter, RetryingSender, command

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
        book: DataKeyring,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        # Include the pool, so that a worker of another pool does not count as an earlier boot.
        self.id = f"{place.pool}-{place.instance}/{uuid7()}"
        self._app = app
        self._transport = transport
        self._topology = topology
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._runs: set[asyncio.Task[None]] = set()
        self._ended = EndedRuns(self._loop)
        self._failure: asyncio.Future[None] = self._loop.create_future()
        leases, partitions = topology.leases, topology.partitions
        self.held_leases = HeldLeases(place.slots, leases.margin_seconds, partitions, clock)
        self._sender = RetryingSender(transport, clock)
        identity = Identity(self.id, place.pool, app.handlers())
        self.heartbeater = Heartbeater(
            identity, self.held_leases, transport, partitions, leases, clock
        )
        self._alone = Alone(self.held_leases, self.heartbeater, clock)
        self.notices = Notices(self.heartbeater, self.held_leases, clock)
        self._replies = Replies(
            self.id, partitions, self._sender, self._loop, self.notices.by_kind()
        )
        self._receiver = LeaseReceiver(
            cluster_key,
            partitions,
            self.held_leases,
            self.heartbeater,
            self._sender,
            self._taken,
            clock,
        )
        self._keyring = book
        self.watchdog = Watchdog(self._loop, self.held_leases, self.heartbeater, clock)

    def start(self) -> None:
        """Open the transport. Heartbeats are sent by `serve`, or by calling `heartbeater.beat`."""
        self._transport.start(self)
        self._declare_schedules()

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
            await self.drain(0 if self._failure.done() else drain_seconds)
        finally:
            stopped.cancel()
            self.watchdog.stop()
            self._ended.sum_up()
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
        if self._runs:
            log.info(
                "draining", running=len(self._runs), seconds=round(seconds), jobs=self._named()
            )
            await asyncio.wait(self._runs, timeout=seconds)
        for session in self._replies.sessions():
            session.stop(RunResult(RELEASED, error="the worker shut down"))
        if self._runs:
            await asyncio.wait(self._runs, timeout=GRACE_SECONDS + 1)

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
        def fail() -> None:
            if not self._failure.done():
                self._failure.set_exception(error)

        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(fail)

    def _taken(self, held: Held) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin, held)

    def _begin(self, held: Held) -> None:
        session = RunSession(held, self._sender, self._topology.partitions, self._clock)
        self._replies.attend(session)
        run = self._loop.create_task(self._traced(session))
        self._runs.add(run)
        run.add_done_callback(self._runs.discard)

    async def _traced(self, session: RunSession) -> None:
        with run_span(session.lease, self.heartbeater.identity.pool) as span:
            await self._run(session, span)

    async def _run(self, session: RunSession, span: Span) -> None:
        lease, started = session.lease, self._clock()
        try:
            if lease.alone:
                await self._alone.turn(session)
                started = self._clock()
            run_result = await self._execution(session).run()
        except Exception as error:
            # No error of a handler gets here. Any other must not cost a slot for good.
            log.exception("run could not be executed", job_id=lease.job_id, type=lease.type)
            run_result = raised(error)
        seconds = self._clock() - started
        note_result(span, run_result)
        metrics.HANDLER_SECONDS.labels(lease.type, run_result.status).observe(seconds, exemplar())
        self._ended.tell(lease, run_result, seconds)
        self._leave_slot(session)
        try:
            await self._tell(session, run_result)
        finally:  # even after an error, list the lease no more, so that it expires
            self._replies.leave(session)
            self.held_leases.drop(session.held)
            self.heartbeater.tell()

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
        failed = self._failure.done()
        await self.heartbeater.leave(self._sender, _FULL_STOP_SECONDS if failed else LEAVE_SECONDS)

    def _execution(self, session: RunSession) -> Execution:
        job = self._app.jobs[session.lease.type]
        claimant = Claimant(
            self.id, lambda: self.heartbeater.work_partition or 0, self._app.tools, job.scopes
        )
        history = History(session.lease.steps, self._app.version)
        steps = Steps(session, history)
        waits = Waits(session, history, steps, self._replies, claimant)
        children = Children(session, history, steps, waits, self._replies, claimant)
        most = self._topology.workflows.most_children
        context = Context(
            session,
            Effects(session, self._replies, claimant),
            steps,
            history,
            waits,
            WaitCalls(history, waits),
            Approvals(session, history, waits, self._keyring),
            children,
            Gathering(session, history, waits, children, most),
            self._keyring,
            self._transport.fetch,
        )
        preflight = self._app.preflights.get(job.name)
        return Execution(session, context, job, preflight, self._clock)

    def _leave_slot(self, session: RunSession) -> None:
        task, held = session.task, session.held
        if task is None or task.done():
            self.held_leases.vacate(held)
            return

        def late(_: asyncio.Task[RunResult]) -> None:
            self.held_leases.vacate(held)
            self.held_leases.drop(held)
            self.heartbeater.tell()

        task.add_done_callback(late)

    async def _tell(self, session: RunSession, run_result: RunResult) -> None:
        """Report how the run ended; a run that lost its lease reports nothing."""
        if run_result.status == LOST:
            return
        held, now = session.held, self._clock()
        home = held.lease.home_partition
        with self.held_leases.lock:
            free, received = self.held_leases.tell(home)
            ended = Ended(
                self.id,
                held.lease.run_id,
                free,
                run_result.status,
                run_result.result,
                run_result.error,
                run_result.retry_after_seconds,
                received,
                run_result.traceback,
                run_result.diverged,
                run_result.waits,
            )
            said = self._sender.send(command(held.lease, ended), lambda: held.valid_until)
        self.heartbeater.tell()
        try:
            await said
        except LeaseLost as error:
            log.warning("could not report the end of a run", reason=str(error))
        finally:
            self.heartbeater.said(home, now)

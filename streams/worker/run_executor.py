"""Runs each lease that was taken to its end, and reports the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog
from opentelemetry.trace import Span

from streams.errors import LeaseLost
from streams.serde.records import Ended, Lease
from streams.serde.run_ends import CONTINUED, LOST
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
from streams.worker.handler.model_calls import ModelCalls
from streams.worker.handler.run_result import RunResult, raised
from streams.worker.handler.run_session import RunSession
from streams.worker.handler.run_span import note_result, run_span
from streams.worker.handler.steps import Steps
from streams.worker.handler.wait_calls import WaitCalls
from streams.worker.handler.waits import Waits
from streams.worker.lease.heartbeater import Heartbeater
from streams.worker.lease.held_leases import Held, HeldLeases
from streams.worker.lease.isolation import Alone
from streams.worker.transport.contract import Transport
from streams.worker.transport.replies import Replies
from streams.worker.transport.retrying_sender import RetryingSender, command

log = structlog.get_logger(__name__)


class RunExecutor:
    """Runs leases in the present event loop; `running` has the task of each run."""

    def __init__(
        self,
        app: App,
        topology: Topology,
        transport: Transport,
        sender: RetryingSender,
        replies: Replies,
        held_leases: HeldLeases,
        heartbeater: Heartbeater,
        keyring: DataKeyring,
        clock: Callable[[], float],
    ) -> None:
        self.running: set[asyncio.Task[None]] = set()
        self._app = app
        self._topology = topology
        self._transport = transport
        self._sender = sender
        self._replies = replies
        self._held_leases = held_leases
        self._heartbeater = heartbeater
        self._keyring = keyring
        self._clock = clock
        self._alone = Alone(held_leases, heartbeater, clock)
        self._loop = asyncio.get_running_loop()
        self._ended = EndedRuns(self._loop)

    def begin(self, held: Held) -> None:
        """Begin the run of a lease."""
        session = RunSession(held, self._sender, self._topology.partitions, self._clock)
        self._replies.attend(session)
        run = self._loop.create_task(self._traced(session))
        self.running.add(run)
        run.add_done_callback(self.running.discard)

    def sum_up(self) -> None:
        """Log how many ends of runs have no line of their own yet."""
        self._ended.sum_up()

    async def _traced(self, session: RunSession) -> None:
        with run_span(session.lease, self._heartbeater.identity.pool) as span:
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
            await self._report(session, run_result)
        finally:  # even after an error, list the lease no more, so that it expires
            self._replies.leave(session)
            self._held_leases.drop(session.held)
            self._heartbeater.tell()

    def _execution(self, session: RunSession) -> Execution:
        job = self._app.jobs[session.lease.type]
        claimant = Claimant(
            self._heartbeater.identity.worker_id,
            lambda: self._heartbeater.work_partition or 0,
            self._app.tools,
            job.scopes,
        )
        history = History(session.lease.steps, self._app.version)
        models = ModelCalls(session, self._replies, claimant)
        steps = Steps(session, history, models)
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
            self._held_leases.vacate(held)
            return

        def late(_: asyncio.Task[RunResult]) -> None:
            self._held_leases.vacate(held)
            self._held_leases.drop(held)
            self._heartbeater.tell()

        task.add_done_callback(late)

    async def _report(self, session: RunSession, run_result: RunResult) -> None:
        """Report how the run ended; a run that lost its lease reports nothing."""
        if run_result.status == LOST:
            return
        held, now = session.held, self._clock()
        home = held.lease.home_partition
        with self._held_leases.lock:
            free, received = self._held_leases.tell(home)
            ended = Ended(
                self._heartbeater.identity.worker_id,
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
                _given(held.lease) if run_result.status == CONTINUED else (),
            )
            said = self._sender.send(command(held.lease, ended), lambda: held.valid_until)
        self._heartbeater.tell()
        try:
            await said
        except LeaseLost as error:
            log.warning("could not report the end of a run", reason=str(error))
        finally:
            self._heartbeater.said(home, now)


def _given(lease: Lease) -> tuple[str, ...]:
    """The waits whose events a run was given."""
    return tuple(left.id for left in lease.steps if left.kind == "event" and left.raises is None)

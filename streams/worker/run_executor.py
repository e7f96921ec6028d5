"""Runs each lease that was taken to its end, and reports the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import structlog

from streams.artifacts.store import ArtifactStore
from streams.errors import LeaseLost, PermanentError
from streams.redaction.redaction import Redaction
from streams.serde.records import Ended, Lease
from streams.serde.run_ends import CONTINUED, LOST, SUCCEEDED, ReportedEnd
from streams.topology.model import Topology
from streams.worker.app import App
from streams.worker.credentials.credentials import Credentials
from streams.worker.handler.contexts import Contexts
from streams.worker.handler.execution import Execution
from streams.worker.handler.handler_error import result_of
from streams.worker.handler.run_result import RunResult, RunStopped, raised
from streams.worker.handler.run_session import RunSession
from streams.worker.lease.held_leases import Held, HeldLeases
from streams.worker.link.link import Link
from streams.worker.link.replies import Replies
from streams.worker.middleware.chain import Chain
from streams.worker.middleware.contract import Run, WorkerParts

log = structlog.get_logger(__name__)


class RunExecutor:
    """Runs leases in the present event loop.

    `running` has the task of each run, and `contexts` makes what handlers get.
    """

    def __init__(
        self,
        app: App,
        topology: Topology,
        link: Link,
        replies: Replies,
        held_leases: HeldLeases,
        redaction: Redaction,
        credentials: Credentials,
        store: ArtifactStore | None,
        clock: Callable[[], float],
    ) -> None:
        self.running: set[asyncio.Task[None]] = set()
        self._app = app
        self._link = link
        self._replies = replies
        self._held_leases = held_leases
        self._redaction = redaction
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        worker = WorkerParts(app, link.identity.pool, held_leases, link, clock)
        self._chain = Chain(app.middleware.made(worker))
        self.contexts = Contexts(app, topology, replies, credentials, self._chain, store)

    def begin(self, held: Held) -> None:
        """Begin the run of a lease."""
        session = RunSession(held, self._link, self._clock, self._redaction)
        self._replies.attend(session)
        run = self._loop.create_task(self._run(session))
        self.running.add(run)
        run.add_done_callback(self.running.discard)

    def close(self) -> None:
        """Close the middleware: the worker ends, and no more runs begin."""
        self._chain.close()

    async def _run(self, session: RunSession) -> None:
        try:
            try:
                run_result = await self._run_result(session)
            finally:
                self._leave_slot(session)
            await self._report(session, run_result)
        finally:  # even after an error, list the lease no more, so that it expires
            self._replies.leave(session)
            self._held_leases.drop(session.held)
            self._link.tell()

    async def _run_result(self, session: RunSession) -> RunResult:
        """How the run ended. Nothing that goes wrong in it may cost a slot for good."""
        try:
            run = Run(session.lease, self.contexts.make(session), session)
            run_result = await self._chain.run(run, partial(self._handled, run))
        except (asyncio.CancelledError, RunStopped, LeaseLost) as error:
            if _ends_the_loop(error):
                raise
            run_result = session.verdict or raised(error, self._redaction.text)
        except Exception as error:  # no error of a handler or a middleware gets here
            lease, run_result = session.lease, raised(error, self._redaction.text)
            with suppress(Exception):  # an odd error may have frames that cannot be written
                log.exception("run could not be executed", job_id=lease.job_id, type=lease.type)
        if session.verdict is None:
            session.stop(run_result)  # tasks that a middleware left behind start nothing more
        elif session.verdict.status == LOST:  # whatever the middleware made of it
            return session.verdict
        return run_result

    async def _handled(self, run: Run) -> RunResult:
        """How the handler ended, as a task of its own if no middleware has made one."""
        if run.session.task is None:
            return await Execution(run.session, self._clock).run(partial(self._called, run))
        return await self._called(run)

    async def _called(self, run: Run) -> RunResult:
        try:
            job = self._app.jobs[run.job_type]
            value = job.types.result_of(await job.function(run.ctx))
            artifacts = self.contexts.artifacts(run.session)
            text = await artifacts.text(value, "the handler's result", "result")
            return RunResult(SUCCEEDED, text)
        except BaseException as error:
            return result_of(error, run.session)

    def _leave_slot(self, session: RunSession) -> None:
        task, held = session.task, session.held
        if task is None or task.done():
            self._held_leases.vacate(held)
            return

        def late(_: asyncio.Task[RunResult]) -> None:
            self._held_leases.vacate(held)
            self._held_leases.drop(held)
            self._link.tell()

        task.add_done_callback(late)

    async def _report(self, session: RunSession, run_result: RunResult) -> None:
        """Report how the run ended; a run that lost its lease reports nothing."""
        if run_result.status == LOST:
            return
        await session.say_the_last()
        said = session.send(_ended(session.lease, run_result.status, run_result))
        self._link.tell()
        try:
            await said
        except (LeaseLost, PermanentError) as error:
            log.warning("could not report the end of a run", reason=str(error))


def _ended(lease: Lease, status: ReportedEnd, result: RunResult) -> Ended:
    """The command that reports how a run ended."""
    return Ended(
        lease.run_id,
        status,
        result.result,
        result.error,
        result.retry_after_seconds,
        result.traceback,
        result.diverged,
        result.waits,
        _given(lease) if status == CONTINUED else (),
    )


def _given(lease: Lease) -> tuple[str, ...]:
    """The waits whose events a run was given."""
    return tuple(left.id for left in lease.steps if left.kind == "event" and left.raises is None)


def _ends_the_loop(error: BaseException) -> bool:
    """Whether the whole run is cancelled, not only what a middleware awaits."""
    task = asyncio.current_task()
    cancelled = task is not None and task.cancelling() > 0
    return cancelled and isinstance(error, asyncio.CancelledError)

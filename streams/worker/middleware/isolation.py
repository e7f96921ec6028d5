"""Runs a suspect alone: a job that may have ended its workers has its process to itself."""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from streams.serde.run_ends import RELEASED
from streams.worker.handler.run_result import RunResult
from streams.worker.handler.run_session import RunSession
from streams.worker.lease.held_leases import GRACE_SECONDS, Held
from streams.worker.middleware.contract import GoOn, Middleware, Run, WorkerParts

log = structlog.get_logger(__name__)

STUCK_SECONDS = 30.0
"""How long a suspect waits for other runs that ignore their cancellation."""

_LOOK_SECONDS = 1.0


class Isolation(Middleware):
    """Holds a suspect's run back in the handlers' event loop; a process runs one at a time."""

    def __init__(self, worker: WorkerParts) -> None:
        self._held_leases = worker.held_leases
        self._link = worker.link
        self._clock = worker.clock
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        worker.held_leases.watchers.append(self._changed)

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        """Go on at once, or with a suspect when it is alone."""
        if run.lease.alone:
            await self._alone(run.session)
        return await go_on()

    async def _alone(self, session: RunSession) -> None:
        """Return once the run may start, with its timeout begun, or once it has a verdict.

        First the other runs must end. Then a heartbeat that says so must be acknowledged. If the
        process dies of this job, the dispatcher knows that the job was running, and alone.
        """
        held = session.held
        while session.verdict is None:
            self._news.clear()
            self._judge(session)
            if held.waits and not self._others(held):
                held.waits = False
                self._link.keep(held.lease.home_partition)
            if held.announced:
                held.started_at = self._clock()
                return
            await self._wait(session)

    def _judge(self, session: RunSession) -> None:
        if self._held_leases.draining:
            session.stop(RunResult(RELEASED, error="the worker shut down"))
        elif self._clock() >= session.held.valid_until:
            session.lose("no heartbeat was acknowledged in time")
        elif self._is_stuck(session.held):
            log.error("cannot run alone: handlers ignore that they were cancelled: restart it")
            session.stop(RunResult(RELEASED, error="runs that ignore their end fill the worker"))

    def _is_stuck(self, held: Held) -> bool:
        others, patience = self._others(held), GRACE_SECONDS + STUCK_SECONDS
        return bool(others) and all(self._clock() > o.timeout_at + patience for o in others)

    def _others(self, held: Held) -> list[Held]:
        """The runs that it waits for; of several suspects that wait, one waits for no other."""
        others = [each for each in self._held_leases.in_process() if each is not held]
        return [each for each in others if not (_waits_alone(each) and held.id < each.id)]

    async def _wait(self, session: RunSession) -> None:
        news = asyncio.ensure_future(self._news.wait())
        try:
            either: set[asyncio.Future[Any]] = {news, session.stopped}
            await asyncio.wait(either, timeout=_LOOK_SECONDS, return_when="FIRST_COMPLETED")
        finally:
            news.cancel()

    def _changed(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._news.set)


def _waits_alone(held: Held) -> bool:
    return held.lease.alone and held.waits

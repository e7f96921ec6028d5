"""The slots of a worker: a run begins once as many are free as its job type takes."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import Any

import structlog

from streams.serde.run_ends import RELEASED
from streams.worker.handler.run_result import RunResult
from streams.worker.handler.run_session import RunSession
from streams.worker.lease.held_leases import GRACE_SECONDS
from streams.worker.middleware.contract import GoOn, Middleware, Run, WorkerParts

log = structlog.get_logger(__name__)

STUCK_SECONDS = 30.0
"""How long a run waits for other runs that ignore their cancellation."""

_LOOK_SECONDS = 1.0


class _Turn:
    """A run that waits for its slots; `comes` is done once it has them."""

    __slots__ = ("comes", "session", "slots")

    def __init__(self, session: RunSession, slots: int, loop: asyncio.AbstractEventLoop) -> None:
        self.session = session
        self.slots = slots
        self.comes: asyncio.Future[None] = loop.create_future()


class Weight(Middleware):
    """Lets runs begin in the order in which they came, so light ones do not starve a heavy one.

    A lease of a heavy run also takes more of the worker's credits, so most other runs never wait
    here: the worker takes no leases for the slots that the heavy run fills or waits for.
    """

    def __init__(self, worker: WorkerParts) -> None:
        self._held_leases = worker.held_leases
        self._link = worker.link
        self._clock = worker.clock
        self._loop = asyncio.get_running_loop()
        self._slots = self._free = worker.held_leases.slots
        self._heavy = {
            name: min(job.weight, self._slots)
            for name, job in worker.app.jobs.items()
            if job.weight > 1
        }
        self._queue: deque[_Turn] = deque()
        worker.held_leases.watchers.append(self._changed)

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        """Go on once the run has its slots, or has a verdict while it waits for them."""
        if not self._heavy:
            return await go_on()
        slots, held = self._heavy.get(run.job_type, 1), run.session.held
        waits = bool(self._queue) or slots > self._free
        if waits:  # before a heartbeat says that it has begun
            held.started_at, held.waits = math.inf, True
        if slots > 1:
            self._held_leases.widen(held, slots)
            self._link.tell()
        if waits:
            if not await self._comes(_Turn(run.session, slots, self._loop)):
                return await go_on()  # what is within sees the verdict, and calls no handler
        else:
            self._free -= slots
        try:
            return await go_on()
        finally:
            self._leave(run.session, slots)

    async def _comes(self, turn: _Turn) -> bool:
        """Wait for a turn; whether it has come. The run's timeout begins with it."""
        session, held = turn.session, turn.session.held
        self._queue.append(turn)
        if self._held_leases.draining:
            self._release_all()
        try:
            either: set[asyncio.Future[Any]] = {turn.comes, session.stopped}
            while not turn.comes.done() and session.verdict is None:
                done, _ = await asyncio.wait(
                    either, timeout=_LOOK_SECONDS, return_when="FIRST_COMPLETED"
                )
                if not done:
                    self._look(turn)
        except BaseException:
            self._give_up(turn)
            raise
        if session.verdict is not None:
            self._give_up(turn)
            return False
        held.started_at, held.waits = self._clock(), False
        self._link.keep(held.lease.home_partition)
        return True

    def _look(self, turn: _Turn) -> None:
        """Judge a run that has waited for a while."""
        now, patience = self._clock(), GRACE_SECONDS + STUCK_SECONDS
        runs = self._held_leases.running()
        stuck = sum(held.weight for held in runs if now > held.timeout_at + patience)
        if not turn.session.is_over() and stuck > self._slots - turn.slots:
            log.error("slots stay taken: handlers ignore that they were cancelled: restart it")
            turn.session.stop(
                RunResult(RELEASED, error="runs that ignore their end fill the worker")
            )

    def _leave(self, session: RunSession, slots: int) -> None:
        """Give the slots back once the run's task is done: it may ignore that it was cancelled."""
        if session.task is None or session.task.done():
            self._give(slots)
        else:
            session.task.add_done_callback(lambda _: self._give(slots))

    def _give(self, slots: int) -> None:
        self._free += slots
        self._admit()

    def _give_up(self, turn: _Turn) -> None:
        if turn.comes.done():
            self._give(turn.slots)
        else:
            self._queue.remove(turn)
            self._admit()

    def _admit(self) -> None:
        while self._queue and self._queue[0].slots <= self._free:
            turn = self._queue.popleft()
            self._free -= turn.slots
            turn.comes.set_result(None)

    def _changed(self) -> None:
        if self._queue and self._held_leases.draining and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._release_all)

    def _release_all(self) -> None:
        for turn in self._queue:
            turn.session.stop(RunResult(RELEASED, error="the worker shut down"))

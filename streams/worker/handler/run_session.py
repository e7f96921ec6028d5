"""Sends the commands of one run while its lease is valid; used in the handlers' event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import structlog

from streams.errors import LeaseLost
from streams.redaction.redaction import Redaction
from streams.serde.effect_states import UNKNOWN
from streams.serde.records import Checkpoint, CommandBody, Lease, Outcome
from streams.serde.run_ends import LOST
from streams.serde.step_ids import step_id
from streams.tracing.spans import current
from streams.worker.handler.branches import current_branch
from streams.worker.handler.redacted import clean_json, redacted
from streams.worker.handler.run_result import RunResult
from streams.worker.lease.held_leases import Held
from streams.worker.link.contract import Deadline
from streams.worker.link.link import Link
from streams.worker.link.run_commands import RunCommands
from streams.worker.link.run_requests import RunRequests
from streams.worker.live.heartbeats import Heartbeats
from streams.worker.live.output import LivePublisher

log = structlog.get_logger(__name__)

_IN_CALL: ContextVar[bool] = ContextVar("in_call", default=False)
LATE_SECONDS = 600.0
"""An outcome is still sent this long after the lease's term, since its owner may be away."""


def in_call() -> bool:
    """Whether the present task is in the call of a tool or model."""
    return _IN_CALL.get()


class RunSession:
    """Sends commands about the job until the lease is no longer valid or the run was stopped."""

    def __init__(
        self,
        held: Held,
        link: Link,
        clock: Callable[[], float],
        redaction: Redaction,
    ) -> None:
        self.held = held
        self.redaction = redaction
        self.task: asyncio.Task[RunResult] | None = None
        self.verdict: RunResult | None = None
        loop = asyncio.get_running_loop()
        self.stopped: asyncio.Future[None] = loop.create_future()
        self.requests = RunRequests(link, held, clock)
        self.live = LivePublisher(held.lease, self.requests.live, clock, loop, redaction)
        self._commands = RunCommands(link, held.lease)
        self.heartbeats = Heartbeats(held, self._commands, loop, redaction)
        self._clock = clock
        self._calls: set[asyncio.Future[None]] = set()
        self._under_way = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Something is under way that the run does not park before."""
        self._under_way += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._quiet.set()

    @property
    def is_quiet(self) -> bool:
        """Whether no step, effect or other call of the run is under way."""
        return not self._under_way

    async def quiet(self) -> None:
        """Wait until nothing is under way."""
        await self._quiet.wait()

    @contextmanager
    def calling(self) -> Iterator[None]:
        """The present task calls a tool or a model."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._calls.add(ended)
        token = _IN_CALL.set(True)
        try:
            yield
        finally:
            _IN_CALL.reset(token)
            self._calls.discard(ended)
            ended.set_result(None)

    @property
    def is_calling(self) -> bool:
        """Whether a tool or a model is called now."""
        return bool(self._calls)

    async def calls_ended(self) -> None:
        """Wait for the run's own calls: stopping it would leave their outcomes unknown."""
        while self._calls:
            await asyncio.wait(set(self._calls))

    @property
    def lease(self) -> Lease:
        return self.held.lease

    @property
    def traceparent(self) -> str | None:
        """The span in which the handler is now, else what the lease carries."""
        return current() or self.lease.traceparent

    def seconds_left(self) -> float:
        """How long the run may still take; less than nothing once its time is up."""
        return self.held.timeout_at - self._clock()

    @property
    def has_ended(self) -> bool:
        """Whether the run is over; threads may ask, because it stops nothing."""
        return self.verdict is not None or self._clock() >= self.held.valid_until

    def is_over(self) -> bool:
        """Whether the run was stopped; it is also stopped here if its lease is no longer valid."""
        if self._clock() >= self.held.valid_until:
            self.lose("no heartbeat was acknowledged in time")
        return self.verdict is not None

    def check(self) -> None:
        """Return if the run may start something; call this before anything is started.

        Raises:
            LeaseLost: the run was stopped, or the lease is no longer valid.
        """
        if self.is_over():
            raise LeaseLost(f"run {self.lease.run_id} is over: it starts nothing more")

    def stop(self, verdict: RunResult) -> None:
        """End the run; the first verdict counts. Cancels the run's task unless it is the caller."""
        if self.verdict is None:
            self.verdict = verdict
        if not self.stopped.done():
            self.stopped.set_result(None)
        if self.task and self.task is not asyncio.current_task():
            self.task.cancel()

    def lose(self, why: str) -> None:
        """Stop the run and report nothing, because another run may have begun."""
        lease, first = self.lease, self.verdict is None
        self.stop(RunResult(LOST))
        if first:
            log.warning("lease lost", job_id=lease.job_id, type=lease.type, why=why)

    def send(self, body: CommandBody, until: Deadline | None = None) -> asyncio.Future[None]:
        """Send a command without what redaction takes out, while it is worth something.

        That is while the lease is valid, unless `until` says otherwise. The future is done once the
        command is durable.

        Raises:
            PermanentError: a name in it, which cannot be changed, holds a secret.
            LeaseLost (in the future): it was not acknowledged in time.
        """
        until = until or (lambda: self.held.valid_until)
        return self._commands.send(redacted(body, self.redaction), until)

    async def say(self, body: CommandBody) -> None:
        """Send a command and wait until it is durable.

        What the run said in a step is durable before the step's result is.

        Raises:
            LeaseLost: the command could not be sent while the lease was valid.
        """
        if isinstance(body, Checkpoint):
            self.live.finish(body.step.id)
            await self.live.flush()
        sent = self.send(body)
        try:
            await sent
        except LeaseLost:
            self.lose(f"{type(body).__name__} of {self.lease.job_id} could not be sent in time")
            raise

    async def record(self, outcome: Outcome) -> None:
        """Send an effect's outcome, even after the lease is over, because it starts nothing new.

        The run goes on after one turn of the event loop: no later command of it can be committed
        before this one.
        """
        self.live.finish(step_id(current_branch(), outcome.action))
        self.live.hurry()  # an outcome waits for nothing
        self.post(outcome)
        await asyncio.sleep(0)

    def post(self, outcome: Outcome) -> None:
        """Send an effect's outcome that the run does not wait for any more."""
        self._commands.post(redacted(outcome, self.redaction), self._worth_telling(outcome))

    def tell(self, body: CommandBody) -> None:
        """Send, without waiting, a command that matters only while the lease is valid."""
        self._commands.post(redacted(body, self.redaction), lambda: self.held.valid_until)

    async def progress(self, value: str) -> None:
        """Publish progress (JSON text) and wait until it is durable.

        Raises:
            LeaseLost: like `say`.
        """
        value = clean_json(value, self.redaction, "progress")
        try:
            await self.requests.progress(value)
        except LeaseLost:
            self.lose("progress could not be published in time")
            raise

    async def say_the_last(self) -> None:
        """Make durable what the run has said; call this before its end is sent."""
        self.live.finish()
        await self.live.flush()
        self.heartbeats.flush()

    def _worth_telling(self, outcome: Outcome) -> Deadline:
        """Until when an outcome is worth sending. Long after the term a known outcome still answers
        the question that a person would get; an unknown one is assumed by then anyway."""
        late = 0.0 if outcome.status == UNKNOWN else LATE_SECONDS
        return lambda: self.held.expires_at + late

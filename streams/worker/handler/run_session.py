"""Sends the commands of one run while its lease is valid; used in the handlers' event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import structlog

from streams.errors import LeaseLost
from streams.process.wall_clock import wall_ms
from streams.redaction.redaction import Redaction
from streams.serde.codec import LIVE, PROGRESS
from streams.serde.effect_states import UNKNOWN
from streams.serde.ids import partition_for
from streams.serde.records import (
    Checkpoint,
    CommandBody,
    Lease,
    LiveOutput,
    Outcome,
    Progress,
)
from streams.serde.run_ends import LOST
from streams.serde.step_ids import step_id
from streams.tracing.spans import current
from streams.worker.handler.branches import current_branch
from streams.worker.handler.redacted import clean_json, redacted
from streams.worker.handler.run_result import RunResult
from streams.worker.lease.held_leases import Held
from streams.worker.live.heartbeats import Heartbeats
from streams.worker.live.output import LivePublisher
from streams.worker.transport.retrying_sender import Deadline, Letter, RetryingSender, command

log = structlog.get_logger(__name__)

_IN_CALL: ContextVar[bool] = ContextVar("in_call", default=False)
LATE_SECONDS = 600.0
"""An outcome is still sent this long after the lease's term, since a broker may be away."""


def in_call() -> bool:
    """Whether the present task is in the call of a tool or model."""
    return _IN_CALL.get()


class RunSession:
    """Sends commands about the job until the lease is no longer valid or the run was stopped."""

    def __init__(
        self,
        held: Held,
        sender: RetryingSender,
        partitions: int,
        clock: Callable[[], float],
        redaction: Redaction,
    ) -> None:
        self.held = held
        self.redaction = redaction
        self.task: asyncio.Task[RunResult] | None = None
        self.verdict: RunResult | None = None
        loop = asyncio.get_running_loop()
        self.stopped: asyncio.Future[None] = loop.create_future()
        self.live = LivePublisher(held.lease, self._publish, clock, loop, redaction)
        self.heartbeats = Heartbeats(self, loop)
        self._sender = sender
        self._partitions = partitions
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

    def letter(self, body: CommandBody) -> Letter:
        """A command as it may be sent: without what redaction takes out.

        Raises:
            PermanentError: a name in it, which cannot be changed, holds a secret.
        """
        return command(self.lease, redacted(body, self.redaction))

    async def say(self, body: CommandBody, until: Deadline | None = None) -> None:
        """Send a command and wait until it is durable.

        What the run said in a step is durable before the step's result is.

        Raises:
            LeaseLost: the command could not be sent while the lease was valid.
        """
        if isinstance(body, Checkpoint):
            self.live.finish(body.step.id)
            await self.live.flush()
        await self._send(self.letter(body), until or (lambda: self.held.valid_until))

    async def record(self, outcome: Outcome) -> None:
        """Send an effect's outcome, even after the lease is over, because it starts nothing new.

        Raises:
            LeaseLost: the outcome could not be sent in time.
        """
        self.live.finish(step_id(current_branch(), outcome.action))
        self.live.hurry()  # an outcome waits for nothing
        await self._send(self.letter(outcome), self._worth_telling(outcome))

    def post(self, outcome: Outcome) -> None:
        """Send, without waiting, an effect's outcome that the run does not wait for any more."""
        self._sender.post(self.letter(outcome), self._worth_telling(outcome))

    def tell(self, body: CommandBody) -> None:
        """Send, without waiting, a command that matters only while the lease is valid."""
        self._sender.post(self.letter(body), lambda: self.held.valid_until)

    async def progress(self, value: str) -> None:
        """Publish progress (JSON text) and wait until it is durable.

        Raises:
            LeaseLost: like `say`.
        """
        lease, value = self.lease, clean_json(value, self.redaction, "progress")
        record = Progress(lease.job_id, lease.tenant_id, lease.run_id, wall_ms(), value)
        partition = partition_for(lease.tenant_id, self._partitions)
        letter = Letter(
            "jobs.progress",
            lease.job_id.encode(),
            PROGRESS.encode(record),
            partition,
            f"Progress of {lease.job_id}",
        )
        await self._send(letter, lambda: self.held.valid_until)

    async def say_the_last(self) -> None:
        """Make durable what the run has said; call this before its end is sent."""
        self.live.finish()
        await self.live.flush()
        self.heartbeats.flush()

    def _publish(self, output: LiveOutput) -> asyncio.Future[None]:
        partition = partition_for(output.tenant_id, self._partitions)
        what = f"live output of {output.job_id}"
        letter = Letter("jobs.live", output.job_id.encode(), LIVE.encode(output), partition, what)
        return self._sender.send(letter, lambda: self.held.valid_until)

    def _worth_telling(self, outcome: Outcome) -> Deadline:
        """Until when an outcome is worth sending. Long after the term a known outcome still answers
        the question that a person would get; an unknown one is assumed by then anyway."""
        late = 0.0 if outcome.status == UNKNOWN else LATE_SECONDS
        return lambda: self.held.expires_at + late

    async def _send(self, letter: Letter, until: Deadline) -> None:
        try:
            await self._sender.send(letter, until)
        except LeaseLost:
            self.lose(f"{letter.what} could not be sent in time")
            raise

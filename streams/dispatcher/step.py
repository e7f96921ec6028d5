"""One step of the dispatcher: its clock, its table, its outbox and its timers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from streams import dead_letter
from streams.dispatcher import metrics, replies
from streams.dispatcher.live_index import Live
from streams.dispatcher.shared import Shared
from streams.dispatcher.table import Table
from streams.runtime.processor import Context
from streams.serde.codec import COMMAND
from streams.serde.records import Command, DeadLetter, Job, Reply
from streams.state.store import KeyValueStore


class Routing(Protocol):
    """What the stage does for its parts."""

    def apply(self, step: Step, command: Command, at: int) -> None:
        """Have the part that handles a command apply it, as of `at` (milliseconds)."""

    def admitted(self, step: Step, job: Job) -> None:
        """Tell all parts of a new job."""

    def ended(self, step: Step, job: Job) -> None:
        """Tell all parts of a job that has ended."""

    def replaced(self, step: Step, job: Job) -> None:
        """Tell all parts of a finished job whose id lives again."""

    def forgotten(self, step: Step, job: Job) -> None:
        """Tell all parts of a finished job that was deleted."""

    def mended(self, step: Step, job_id: str, live: Live) -> bool:
        """Have the parts correct a live job if it is due; whether anything changed."""


class Step:
    """What a part works with while it handles records or the passing of time.

    `now` is in milliseconds and stays the same during the step; `monotonic` is in seconds.
    """

    def __init__(self, ctx: Context, table: Table, shared: Shared, routing: Routing) -> None:
        self.ctx = ctx
        self.table = table
        self.shared = shared
        self.topology = shared.topology
        self.now = ctx.now
        self.monotonic = ctx.monotonic
        self._routing = routing

    @property
    def store(self) -> KeyValueStore:
        """The parts' own key spaces."""
        return self.ctx.store("parts")

    @property
    def ledger(self) -> KeyValueStore:
        return self.ctx.store("ledger")

    @property
    def checkpoints(self) -> KeyValueStore:
        return self.ctx.store("checkpoints")

    def apply(self, command: Command, at: int) -> None:
        """Apply a command that was kept, as of `at` (milliseconds)."""
        self._routing.apply(self, command, at)

    def admit(self, job: Job) -> None:
        """Let a new job in."""
        earlier = self.table.get(job.job_id)
        if earlier is not None:
            self._routing.replaced(self, earlier)
        self.table.put(job)
        self._routing.admitted(self, job)

    def end(self, job: Job) -> None:
        """Set a job's final state."""
        self.table.put(job)
        self._routing.ended(self, job)

    def forget(self, job: Job) -> None:
        """Delete a finished job."""
        self.table.forget(job)
        self._routing.forgotten(self, job)

    def mended(self, job_id: str, live: Live) -> bool:
        """Have the parts correct a live job if it is due; whether anything changed."""
        return self._routing.mended(self, job_id, live)

    def on_undo(self, call: Callable[..., object], *args: object) -> None:
        """Call this if the step is undone (`Context.on_undo`)."""
        self.ctx.on_undo(call, *args)

    def answer(self, reply: Reply, partition: int) -> None:
        """Send a reply to a worker, on the partition that it reads."""
        replies.answer(self.ctx, reply, partition)

    def dead_letter(self, letter: DeadLetter) -> None:
        """Write a dead letter."""
        self.ctx.forward(dead_letter.TOPIC, *dead_letter.encoded(letter))

    def bury(self, letter: DeadLetter) -> None:
        """Write a new dead letter, and count it."""
        metrics.DEAD_LETTERS.labels(letter.reason).inc()
        self.dead_letter(letter)

    def timer(self, key: str, due: int, command: Command) -> None:
        """Have the scheduler send a command at `due` (milliseconds).

        A timer replaces an earlier one of the same tenant and key.
        """
        self.ctx.timer(command.tenant_id, key, due, "jobs.commands", COMMAND.encode(command))

"""One step of the dispatcher: its clock, its table, its outbox and its timers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from streams import dead_letter
from streams.dispatcher import live_index, metrics, names, replies
from streams.dispatcher.hooks import Hook, Hooks
from streams.dispatcher.live_index import Live
from streams.dispatcher.shared import Shared
from streams.dispatcher.table import Table
from streams.errors import PoisonRecord
from streams.limits.keys import keyed
from streams.runtime.processor import Context, Record
from streams.serde import run_ends
from streams.serde.codec import COMMAND, ENVELOPE
from streams.serde.job_states import LEASED
from streams.serde.link.messages import Message
from streams.serde.records import (
    Command,
    DeadLetter,
    Ended,
    Envelope,
    Job,
    Reply,
    ReplyKind,
)
from streams.state.store import KeyValueStore
from streams.topology.model import Route


class Step:
    """What a part works with while it handles records or the passing of time.

    `now` is in milliseconds and stays the same during the step; `monotonic` is in seconds. `at` is
    when the broker took in the newest command of the step, or `now` before any.
    `sender` is the worker whose command is handled; None for what comes from a topic.
    `looked` counts what each part has looked at in this step, so that the step stays bounded.
    """

    def __init__(self, ctx: Context, table: Table, shared: Shared, hooks: Hooks) -> None:
        self.ctx = ctx
        self.table = table
        self.shared = shared
        self.topology = shared.topology
        self.now = self.at = ctx.now
        self.monotonic = ctx.monotonic
        self.sender: str | None = None
        self.looked: Counter[type] = Counter()
        self._hooks = hooks
        self._decoded: tuple[Record, Envelope] | None = None

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

    @property
    def approvals(self) -> KeyValueStore:
        return self.ctx.store("approvals")

    def envelope(self, record: Record) -> Envelope:
        """The event in a record of `events`, decoded once for all parts that read it.

        Raises:
            PoisonRecord: it is none, or its names cannot be parts of keys.
        """
        if self._decoded is None or self._decoded[0] is not record:
            found = ENVELOPE.decode(record.value)
            names.check(found)
            self._decoded = record, found
        return self._decoded[1]

    def apply(self, command: Command, at: int, sender: str | None = None) -> None:
        """Have the part that handles a command apply it, as of `at` (milliseconds).

        `sender` is the worker that sent it; None if it comes from a topic.
        """
        self.at, self.sender = at, sender
        self._hooks.handles[type(command.body)](self, command, command.body, at)

    def route(self, event: Envelope, route: Route, at: int, *, late: bool = False) -> None:
        """Tell the parts that an event met its route (`Part.routed`)."""
        for hear in self._hooks.routed:
            hear(self, event, route, at, late)

    def admit(self, job: Job) -> None:
        """Let a new job in, with the values by which limits count it."""
        job = keyed(job, self.shared.limits_of(job.tenant_id))
        earlier = self.table.get(job.job_id)
        if earlier is not None:
            self._tell(self._hooks.replaced, earlier)
        self.table.put(job)
        self._tell(self._hooks.admitted, job)

    def may_go_on(self, job: Job) -> bool:
        """Whether a job may be leased or given up; if not, it has ended or been told to end."""
        return all(may(self, job) for may in self._hooks.may_go_on)

    def begin(self, job: Job) -> Job:
        """A waiting job as its next run gets it (`Part.begins`)."""
        for begins in self._hooks.begins:
            job = begins(self, job)
        return job

    def start(self, job: Job) -> None:
        """Set that a job runs, since its lease is sent."""
        self._tell(self._hooks.starts, job)
        self.table.put(job)

    def decline(self, job: Job) -> None:
        """Tell the parts that no worker begins the run of a lease."""
        self._tell(self._hooks.unbegun, job)

    def leased(self, job_id: str) -> Job | None:
        """The job if a worker holds it, stopped if a part means to stop it; its run speaks now."""
        job = self.table.get(job_id)
        if job is None or job.status not in LEASED:
            return None
        return job if self.may_go_on(job) else self.table.get(job_id)

    def revive(self, job: Job) -> None:
        """Set the state in which a dead job lives again."""
        self.table.put(job)
        self._tell(self._hooks.revived, job)

    def end(self, job: Job) -> None:
        """Set a job's final state."""
        self.table.put(job)
        self._tell(self._hooks.ended, job)

    def forget(self, job: Job) -> None:
        """Delete a finished job."""
        self.table.forget(job)
        self._tell(self._hooks.forgotten, job)

    def end_run(self, job: Job, body: Ended) -> None:
        """Have the part that handles such an end of a run decide what becomes of the job.

        If the job was cancelled before, it is cancelled, whatever its run reports.

        Raises:
            PoisonRecord: no run can end so.
        """
        if body.status not in self._hooks.handles:
            raise PoisonRecord("not_supported", f"a run cannot end as {body.status!r}")
        end = run_ends.CANCELLED if job.cancel_requested else body.status
        self._hooks.handles[end](self, job, body)

    def mended(self, job_id: str, live: Live) -> bool:
        """Have the parts correct a live job if it is due; whether anything changed.

        An entry of the index may be older than the table, which knows the changes of this step.
        """
        changed = False
        for part in self._hooks.sweeping:
            if part.is_due(self, live):
                job = self.table.get(job_id)
                now = live_index.live(job)
                if job is not None and now is not None and part.is_due(self, now):
                    changed |= part.mend(self, job)
        return changed

    def on_undo(self, call: Callable[..., object], *args: object) -> None:
        """Call this if the step is undone (`Context.on_undo`)."""
        self.ctx.on_undo(call, *args)

    def say(self, worker_id: str, message: Message) -> None:
        """Say something to a worker."""
        replies.say(self.ctx, worker_id, message)

    def tell(self, worker_id: str, reply: Reply) -> None:
        """Answer a worker's command, or tell it of the end of a run."""
        replies.answer(self.ctx, worker_id, reply)

    def answer(
        self,
        command: Command,
        claim_id: str,
        kind: ReplyKind,
        message: str = "",
        result: str | None = None,
    ) -> None:
        """Answer what a run asks in the present command; `result` is JSON."""
        whose = command.job_id, command.epoch, claim_id
        self.tell(self.sender or "", Reply(*whose, kind, result=result, message=message))

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

    def drop_timer(self, tenant_id: str, key: str) -> None:
        """Forget a timer that has not fired."""
        self.ctx.drop_timer(tenant_id, key)

    def _tell(self, hook: Hook, job: Job) -> None:
        for hear in hook:
            hear(self, job)

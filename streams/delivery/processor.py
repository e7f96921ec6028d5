"""The delivery stage's processor: turns what happened into rows, and rows into attempts.

A row commits in the transaction that read its cause, and only then is sent. What an attempt came to
is committed with the row. So a row is never lost, and an attempt whose end was not committed is
made again: receivers get every message at least once, under one `webhook-id`.

Derived state (whose turn it is, unfinished tests) is built in `restored`. What the sender has, and
which ends of attempts are not committed yet, does not come from the stores and stays.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from functools import partial

from streams.delivery import commands, inputs, messages, outcomes, queue
from streams.delivery.attempts import Attempt, Ended, Sender
from streams.delivery.endpoints import Endpoints
from streams.delivery.fan_out import FanOut
from streams.delivery.handed import Handed
from streams.delivery.history import History, Missed, WindowsOf
from streams.delivery.rotation import Rotation
from streams.delivery.selection import Selection
from streams.delivery.settling import Rules
from streams.delivery.slots import Slots
from streams.delivery.store import TEST, DeliveryStore, Known
from streams.delivery.transitions import Transitions, due_of_test
from streams.delivery.upkeep import Upkeep
from streams.errors import PoisonRecord
from streams.runtime.processor import Context, Processor, Record
from streams.runtime.stage import Stage, declared_stage
from streams.serde.job_states import TERMINAL
from streams.serde.keys import after, split
from streams.tenants.endpoints import CALLBACKS
from streams.topology.model import Topology

_PART_SECONDS = 0.01
_LIVELY_SECONDS = 0.01
"""How often rows that became due are sent, and ends of attempts are taken in."""


def stage(topology: Topology, sender: Sender, history: History) -> Stage:
    """The stage, which reads `events`, `jobs`, `deliveries.commands` and `tenants`."""
    rules = Rules(topology.deliveries_ms, random.random)
    made = partial(Deliveries, sender, history, Slots(), rules)
    return declared_stage(topology, "delivery", made, _LIVELY_SECONDS)


class Deliveries(Processor):
    """Owns one partition's deliveries."""

    def __init__(
        self, sender: Sender, history: History, slots: Slots, rules: Rules, partition: int
    ) -> None:
        self._sender = sender
        self._rules = rules
        self._partition = partition
        self._handed = Handed(slots)
        self._endpoints = Endpoints()
        self._fan_out = FanOut()
        self._commands = commands.Commands()
        self._missed = Missed(history, partition)
        self._upkeep = Upkeep()
        self._known = Known()
        self._tests: dict[str, int] = {}
        self._outbox: list[Attempt] = []
        self._unsaved: list[Ended] = []  # taken from the sender, and not committed
        self._applied = 0  # how many of them are in the current transaction
        self._wrote = self._handling = False
        self._rotate()

    def restored(self, ctx: Context) -> Iterator[None]:
        """Build the derived state, in bounded parts."""
        self._rotate()
        self._recall()
        self._applied = 0
        # A poison record takes back its own writes alone: those before it are not committed yet.
        self._wrote, self._handling = self._handling, False
        store = DeliveryStore(ctx, self._known)
        self._endpoints.restored(store, aborted=not self._wrote)
        self._fan_out.restored(store)
        self._commands.restored(store)
        self._missed.restored()
        self._upkeep.restored()
        self._tests = {split(key)[2]: due_of_test(value) for key, value in store.marked(TEST)}
        began = time.monotonic()
        for endpoint in list(self._endpoints):
            for key, _ in store.queue.range(endpoint.prefix, after(endpoint.prefix)):
                self._rotation.sleep(endpoint, queue.due_of(key, endpoint.prefix))
                break
            if time.monotonic() - began > _PART_SECONDS:
                yield
                began = time.monotonic()

    def committed(self) -> None:
        """Send what was chosen in the transaction that is durable now."""
        self._wrote = False
        del self._unsaved[: self._applied]
        self._applied = 0
        self._endpoints.committed()
        self._fan_out.committed()
        self._send()

    def closed(self) -> None:
        """Give up what is under way: the partition is another process's, or the process ends."""
        self._recall()
        self._sender.forget(self._partition)
        self._missed.closed()
        self._handed.clear()

    def process(self, record: Record, ctx: Context) -> None:
        """Take in an event, a job's end, a command or a setting.

        Raises:
            PoisonRecord: the record cannot be decoded or used.
        """
        self._wrote = self._handling = True
        steps = self._steps(ctx)
        if record.topic == "events":
            self._event(record, steps)
        elif record.topic == "jobs":
            self._job(record, steps)
        elif record.topic == "tenants":
            self._setting(record, steps)
        else:
            self._commands.take(record.value, steps)
        self._handling = False

    def punctuate(self, now: int, ctx: Context) -> None:
        """Take in the ends of attempts, go on with long work, and choose what to send now."""
        steps = self._steps(ctx)
        self._take_ended(steps)
        missed = self._missed.go_on(steps, partial(self._admit, steps))
        obeyed = self._commands.go_on(steps)
        if obeyed:
            self._upkeep.begin()
        worked = self._fan_out.go_on(steps), self._upkeep.go_on(steps)
        self._wrote = self._wrote or missed or obeyed or any(worked)
        self._outbox += self._selection.choose(steps)
        if self._tests:
            self._outbox += self._selection.tests(self._tests, steps)
        if not self._wrote:  # there is nothing to commit
            self.committed()

    def _event(self, record: Record, steps: Transitions) -> None:
        steps.store.raise_watermark(record.timestamp)
        self._fan_out.take(inputs.event_message(record, steps), record.timestamp, steps)

    def _job(self, record: Record, steps: Transitions) -> None:
        job = inputs.job_told(record, steps)
        if job is None:
            return
        steps.store.raise_watermark(record.timestamp)
        message = messages.of_job(job, steps.now)
        self._fan_out.take(message, inputs.ended_at(job, record), steps)
        kept = job.tenant_id not in self._endpoints.erased
        if job.callback_url and job.status in TERMINAL and kept:
            steps.enter_callback(message, job.callback_url)

    def _admit(self, steps: Transitions, record: Record, windows_of: WindowsOf) -> int:
        """Give endpoints what they should have got when a record was first read."""
        try:
            message, happened = inputs.happening(record, steps)
        except PoisonRecord:
            return 0  # its dead letter was written when it was first read
        if message is None:
            return 0
        windows = windows_of(message.tenant_id).items()
        having = {id_: window for id_, window in windows if window.has(record.timestamp)}
        wanting = self._endpoints.wanting(message) if having else ()
        steps.enter(message, [e for e in wanting if e.id in having and e.since <= happened])
        for id_, window in having.items():
            endpoint = self._endpoints.get(message.tenant_id, id_)
            if endpoint is not None and window.unparks(happened):
                steps.unpark(message, endpoint)
        return len(having)

    def _setting(self, record: Record, steps: Transitions) -> None:
        applied = self._endpoints.apply(record, steps.store)
        self._upkeep.begin()
        for endpoint in applied.endpoints:
            steps.turn(endpoint)
            if applied.asks:
                opened = record.timestamp if applied.opened else 0
                self._missed.mark(endpoint, record.timestamp, opened, steps)
                if endpoint.id == CALLBACKS:
                    commands.recover_callbacks(endpoint, steps)

    def _take_ended(self, steps: Transitions) -> None:
        ended = self._sender.ended(self._partition)
        for each in ended:
            self._handed.remove(each.row.delivery_id)
        self._unsaved += ended
        self._applied = len(self._unsaved)
        for each in self._unsaved:
            if outcomes.apply(each, steps, self._fan_out):
                self._wrote = True

    def _send(self) -> None:
        if self._outbox:
            self._sender.send(self._partition, self._outbox)
            self._outbox = []

    def _recall(self) -> None:
        """Forget what was chosen and not sent."""
        for attempt in self._outbox:
            self._handed.remove(attempt.row.delivery_id)
        self._outbox = []

    def _rotate(self) -> None:
        self._rotation = Rotation()
        self._selection = Selection(self._rotation, self._handed)

    def _steps(self, ctx: Context) -> Transitions:
        return Transitions(
            DeliveryStore(ctx, self._known),
            self._endpoints,
            self._rotation,
            self._handed,
            self._tests,
            self._rules,
            self._upkeep.begin,
        )

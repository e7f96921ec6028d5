"""The delivery stage: turns what happened into rows, and rows into attempts.

A row commits in the transaction that read its cause, and only then is sent. What an attempt came to
is committed with the row. So a row is never lost, and an attempt whose end was not committed is
made again: receivers get every message at least once, under one `webhook-id`.

What is derived from rows and endpoints follows each change and each undoing of one
(`change.Change`). What the sender has does not come from the stores and stays.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from functools import partial
from typing import cast

from streams.delivery import queue, store
from streams.delivery.attempts import Sender
from streams.delivery.change import Change
from streams.delivery.endpoint import Endpoint
from streams.delivery.history import History
from streams.delivery.part import Part
from streams.delivery.parts.commands import Commands
from streams.delivery.parts.fan_out import FanOut
from streams.delivery.parts.happenings import Happenings
from streams.delivery.parts.missed import Missed
from streams.delivery.parts.outcomes import Outcomes
from streams.delivery.parts.sending import Sending
from streams.delivery.parts.settings import Settings
from streams.delivery.parts.sweep import Sweep
from streams.delivery.parts.upkeep import Upkeep
from streams.delivery.rows import Rows
from streams.delivery.settling import Rules
from streams.delivery.shared import shared
from streams.delivery.slots import Slots
from streams.delivery.step import Step
from streams.delivery.store import DeliveryStore
from streams.errors import PoisonRecord
from streams.runtime.part import key_spaces, readers, routes, with_hook
from streams.runtime.processor import REST_SECONDS, Context, Processor, Record
from streams.runtime.stage import Stage, declared_stage
from streams.serde.codec import DELIVERY_COMMAND
from streams.serde.delivery_records import DeliveryCommand, Outgoing
from streams.serde.keys import after
from streams.topology.model import Topology

PARTS: tuple[type[Part], ...] = (
    Settings,
    Happenings,
    Outcomes,
    Missed,
    Commands,
    FanOut,
    Upkeep,
    Sweep,
    Sending,
)
"""In the order in which they are told of the time."""

COMMANDS, INPUTS = routes(PARTS), readers(PARTS)
"""The part and the method that handle each kind of command; those that read each input."""
key_spaces(PARTS, store.KEYS)

_RESTORED_SECONDS = 0.01
_LIVELY_SECONDS = 0.01
"""How often rows that became due are sent, and ends of attempts are taken in."""


def stage(topology: Topology, sender: Sender, history: History) -> Stage:
    """The stage as the topology declares it: it reads what its parts read."""
    rules = Rules(topology.deliveries_ms, random.random)
    processor = partial(Deliveries, sender, history, Slots(), rules)
    return declared_stage(topology, "delivery", processor, _LIVELY_SECONDS)


class Deliveries(Processor):
    """Owns one partition's deliveries."""

    def __init__(
        self, sender: Sender, history: History, slots: Slots, rules: Rules, partition: int
    ) -> None:
        self.shared = shared(sender, history, slots, rules, partition)
        self._parts = {part: part(self.shared) for part in PARTS}
        self._commands = cast(Commands, self._parts[Commands])
        self._ticking = with_hook(self._parts.values(), Part, "tick")
        self._working = with_hook(self._parts.values(), Part, "rests")
        self._announcing = with_hook(self._parts.values(), Part, "announced")

    def restored(self, ctx: Context) -> Iterator[None]:
        """Build the derived state, in bounded parts."""
        self._store = DeliveryStore(ctx)
        ready = self.shared.ready
        self._rows = Rows(ctx, self.shared.in_flight, ready.row_changed)
        self.shared.closed.restored(self._store.queue)
        for endpoint in self._store.endpoints():
            self.shared.endpoints.changed(Change(None, endpoint))
        for row in self._rows.pending_tests():
            ready.row_changed(Change(None, row))
        for part in self._parts.values():
            part.restored(self._store)
        began = time.monotonic()
        for endpoint in list(self.shared.endpoints):
            for key, _ in self._store.queue.range(endpoint.prefix, after(endpoint.prefix)):
                ready.rotation.sleep(endpoint.place, queue.due_of(key, endpoint.prefix))
                break
            if time.monotonic() - began > _RESTORED_SECONDS:
                yield
                began = time.monotonic()

    def undone(self, ctx: Context) -> None:
        """Do nothing: each change was noted together with the call that reverses it."""

    def closed(self) -> None:
        """Give up what is under way: the partition is another process's, or the process ends."""
        self.shared.sender.forget(self.shared.partition)
        for part in self._parts.values():
            part.closed()
        self.shared.in_flight.clear()

    def process(self, record: Record, ctx: Context) -> None:
        """Have the parts that read an input take in a record.

        Raises:
            PoisonRecord: the record cannot be decoded or used.
        """
        step = self._step()
        for part, method in INPUTS[record.topic]:
            getattr(self._parts[part], method)(step, record)

    def answer(self, record: Record, poison: PoisonRecord, ctx: Context) -> bool:
        """Answer a refused command of a person, who is told."""
        if record.topic != "deliveries.commands":
            return False
        try:
            command = DELIVERY_COMMAND.decode(record.value)
        except PoisonRecord:
            return False
        return self._commands.refuse(self._step(), command, poison)

    def punctuate(self, now: int, ctx: Context) -> None:
        """Tell every part that time has passed."""
        step = self._step()
        for part in self._ticking:
            part.tick(step)

    def rests(self, ctx: Context) -> bool:
        """Whether no attempt is under way, and no part has work in hand or soon."""
        return all(part.rests(ctx.now + int(REST_SECONDS * 1000)) for part in self._working)

    def announced(self, step: Step, message: Outgoing, happened: int) -> None:
        """Tell all parts of a message."""
        for part in self._announcing:
            part.announced(step, message, happened)

    def wants_more(self, step: Step, endpoint: Endpoint, since: int, opened: int) -> None:
        """Tell all parts of an endpoint that wants more than before."""
        for part in self._parts.values():
            part.wants_more(step, endpoint, since, opened)

    def apply(self, step: Step, command: DeliveryCommand) -> None:
        """Have the part that handles a command apply it."""
        part, method = COMMANDS[command.kind]
        getattr(self._parts[part], method)(step, command)

    def _step(self) -> Step:
        return Step(self._store, self._rows, self.shared, self)

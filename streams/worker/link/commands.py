"""Sends commands to the owners of their partitions, until they are acknowledged or too late."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import structlog

from streams.errors import LeaseLost, PermanentError
from streams.serde.link.frames import MAX_COMMAND_BYTES, encoded
from streams.serde.records import Command
from streams.worker.link.contract import NEVER, Acknowledged, Deadline
from streams.worker.link.outbox import Outbox, Waiting
from streams.worker.link.owners import Owners

log = structlog.get_logger(__name__)


class Commands:
    """The commands of one worker. It is called under the lock of the leases."""

    def __init__(self, owners: Owners, clock: Callable[[], float]) -> None:
        self._owners = owners
        self._clock = clock
        self._outbox = Outbox(clock)
        self._emptied: list[Callable[[None], None]] = []

    def post(
        self,
        partition: int,
        command: Command,
        until: Deadline,
        done: Acknowledged | None = None,
        *,
        once: bool = False,
    ) -> None:
        """See `Link.post`."""
        if self._clock() >= until():
            _too_late(self._outbox.unsent(partition, command, until, done))
            return
        order = self._outbox.add(partition, command, until, done, once)
        message, owner = encoded(order), self._owners.of(partition)
        if len(message) > MAX_COMMAND_BYTES:
            why = f"it has {len(message):,} bytes, more than an owner takes"
            self.refused(partition, order.number, why)
        elif owner is not None:
            owner.send(message)

    def acknowledged(self, numbers: Mapping[int, int]) -> None:
        """An owner has committed the commands of partitions up to these numbers."""
        for partition, number in numbers.items():
            for waiting in self._outbox.acknowledged(partition, number):
                if waiting.done is not None:
                    waiting.done(None)
        self._tell_empty()

    def refused(self, partition: int, number: int, why: str) -> None:
        """No owner can apply a command."""
        waiting = self._outbox.refused(partition, number)
        if waiting is not None:
            log.error("no owner can apply a command", command=waiting.what, why=why)
            if waiting.done is not None:
                waiting.done(PermanentError(f"{waiting.what} is refused: {why}"))

    def take(self, partition: int) -> list[Waiting]:
        """Take out what the new owner of a partition is to be sent, in its order."""
        self.give_up()
        return self._outbox.take(partition)

    def put(self, again: Iterable[Waiting]) -> None:
        """Send commands that were taken out to the present owner."""
        for waiting in again:
            order = self._outbox.put(waiting)
            owner = self._owners.of(order.partition)
            if owner is not None:
                owner.send(encoded(order))

    def give_up(self) -> None:
        """Let go of those whose deadlines are over."""
        for waiting in self._outbox.late():
            _too_late(waiting)
        self._tell_empty()

    def when_empty(self, told: Callable[[None], None]) -> None:
        """Call `told` once nothing waits for an acknowledgement."""
        self._emptied.append(told)
        self._tell_empty()

    def _tell_empty(self) -> None:
        if self._emptied and self._outbox.is_empty:
            told, self._emptied = self._emptied, []
            for each in told:
                each(None)


def _too_late(waiting: Waiting) -> None:
    if not waiting.once and waiting.until() != NEVER:
        log.warning("not acknowledged in time: given up", command=waiting.what)
    if waiting.done is not None:
        waiting.done(LeaseLost(f"{waiting.what} was not acknowledged in time"))

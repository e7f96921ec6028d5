"""An owner of partitions that a test plays: it keeps what a worker says, and says what it must."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from streams.serde.ids import new_id
from streams.serde.link import commands, frames
from streams.serde.link.messages import (
    VERSION,
    Acked,
    Beat,
    FromOwner,
    FromWorker,
    Leased,
    Message,
    Order,
    Owned,
    Welcome,
)
from streams.serde.records import Command, Lease
from streams.topology.model import LeasePolicy
from streams.worker.link.link import Link
from support.leases import lease_to

M = TypeVar("M", bound=Message)


class ScriptedOwner:
    """One connection of a worker, from its owner's side. `on_message` hears each message."""

    def __init__(
        self,
        link: Link,
        name: str = "one",
        partitions: int = 4,
        leases: LeasePolicy | None = None,
    ) -> None:
        self.name = name
        self.said: list[FromWorker] = []
        self.closed_for: str | None = None
        self.on_message: Callable[[FromWorker], None] = lambda _: None
        self._link = link
        self._partitions = partitions
        self._leases = leases or LeasePolicy()

    # The worker's side: `Connection`.

    def send(self, message: bytes) -> None:
        if self.closed_for is None:
            (read,) = frames.from_worker(frames.joined([message]))
            self.said.append(read)
            self.on_message(read)

    def close(self, why: str) -> None:
        self.cut(why)

    # The owner's side.

    def open(self, *owned: int) -> ScriptedOwner:
        """Take the worker in, as the owner of these partitions."""
        self._link.opened(self)
        terms = self._leases
        times = terms.heartbeat_seconds, terms.term_seconds, terms.margin_seconds
        self.say(Welcome(VERSION, "w1/boot", self.name, self._partitions, owned, *times))
        return self

    def say(self, *messages: FromOwner) -> None:
        """Send a frame."""
        self._link.received(self, frames.frame(messages))

    def own(self, *partitions: int) -> None:
        """Announce these partitions, and no others."""
        self.say(Owned(partitions))

    def cut(self, why: str = "cut") -> None:
        """Break the connection."""
        if self.closed_for is None:
            self.closed_for = why
            self._link.closed(self, why)

    def lease(self, partition: int = 0, beat: int | None = None, /, **changes: object) -> Lease:
        """Lease a job in answer to a beat, by default to the newest."""
        blank = replace(lease_to(partition), job_id=new_id("job"), run_id=new_id("run"))
        lease = replace(blank, **changes)  # type: ignore[arg-type]
        answered = self.of(Beat)[-1].number if beat is None else beat
        self.say(Leased(partition, answered, lease))
        return lease

    def acknowledge(self, partition: int | None = None) -> None:
        """Acknowledge every command so far, or those of one partition."""
        numbers: dict[int, int] = {}
        for order in self.of(Order):
            if partition in (None, order.partition):
                numbers[order.partition] = max(order.number, numbers.get(order.partition, 0))
        if numbers:
            self.say(Acked(numbers))

    def of(self, kind: type[M]) -> list[M]:
        """What the worker said of one kind."""
        return [each for each in self.said if isinstance(each, kind)]

    def commands(self, partition: int | None = None) -> list[Command]:
        """The commands of the worker, in their order."""
        orders = [o for o in self.of(Order) if partition in (None, o.partition)]
        return [commands.command(frames.encoded(order), 0) for order in orders]

    def kinds(self, partition: int) -> list[str]:
        """The kinds of the commands to a partition, in their order."""
        return [order.kind for order in self.of(Order) if order.partition == partition]

    @property
    def limit(self) -> int:
        """How many leases the owner may have sent in all."""
        return self.of(Beat)[-1].limit

"""The commands that are not acknowledged yet: their numbers, their order and their deadlines."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from streams.serde.link import commands
from streams.serde.link.messages import Order
from streams.serde.records import Command
from streams.worker.link.contract import Acknowledged, Deadline


@dataclass(slots=True, eq=False)
class Waiting:
    """A command that waits for its acknowledgement. With `once`, no other owner is sent it."""

    order: Order
    until: Deadline
    done: Acknowledged | None
    once: bool

    @property
    def what(self) -> str:
        """Its name in log lines."""
        return f"{self.order.kind} of {self.order.job_id or 'the worker'}"


class Outbox:
    """Commands by partition. It is not thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waiting: dict[int, deque[Waiting]] = {}
        self._numbers: dict[int, int] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits that another owner would be sent."""
        return all(each.once for waiting in self._waiting.values() for each in waiting)

    def add(
        self,
        partition: int,
        command: Command,
        until: Deadline,
        done: Acknowledged | None,
        once: bool,
    ) -> Order:
        """Number a command, and keep it until it is acknowledged or too late."""
        order = commands.order(partition, self._next(partition), command)
        self._waiting.setdefault(partition, deque()).append(Waiting(order, until, done, once))
        return order

    def unsent(
        self, partition: int, command: Command, until: Deadline, done: Acknowledged | None
    ) -> Waiting:
        """A command that is not even begun to be sent."""
        return Waiting(commands.order(partition, 0, command), until, done, False)

    def acknowledged(self, partition: int, number: int) -> list[Waiting]:
        """Take out the commands up to a number."""
        waiting = self._waiting.get(partition, deque[Waiting]())
        found: list[Waiting] = []
        while waiting and waiting[0].order.number <= number:
            found.append(waiting.popleft())
        return found

    def refused(self, partition: int, number: int) -> Waiting | None:
        """Take out the command of a number, which nobody can apply."""
        waiting = self._waiting.get(partition, ())
        found = next((each for each in waiting if each.order.number == number), None)
        if found is not None:
            self._waiting[partition].remove(found)
        return found

    def take(self, partition: int) -> list[Waiting]:
        """Take out all commands of a partition that another owner is to be sent, in their order."""
        return [each for each in self._waiting.pop(partition, ()) if not each.once]

    def put(self, waiting: Waiting) -> Order:
        """Keep a command that was taken out, under a new number.

        So an acknowledgement of its former copy, or of one behind it, counts for nothing: the owner
        may have dropped the copy.
        """
        partition = waiting.order.partition
        number = self._next(partition)
        waiting.order = msgspec.structs.replace(waiting.order, number=number)
        self._waiting.setdefault(partition, deque()).append(waiting)
        return waiting.order

    def late(self) -> list[Waiting]:
        """Take out the commands whose deadline is over."""
        found: list[Waiting] = []
        for waiting in self._waiting.values():
            over = [each for each in waiting if self._clock() >= each.until()]
            for each in over:
                waiting.remove(each)
            found += over
        return found

    def _next(self, partition: int) -> int:
        number = self._numbers[partition] = self._numbers.get(partition, 0) + 1
        return number

"""What a worker process has said over all its connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from streams.serde.link import commands
from streams.serde.link.messages import Order

T = TypeVar("T")
PATIENCE_SECONDS = 30.0
_LOOK_SECONDS = 0.01
OF_THE_WORKER = ("heartbeat", "declare_schedules")
"""Commands that are no job's."""


async def come(look: Callable[[], T | None], what: str, seconds: float = PATIENCE_SECONDS) -> T:
    """The first value that `look` returns and that is not empty."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while True:
        found = look()
        if found:
            return found
        if loop.time() > until:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        await asyncio.sleep(_LOOK_SECONDS)


class Told:
    """One command, with its body as the link has it."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.kind, self.job_id, self.epoch = order.kind, order.job_id, order.epoch
        self.partition = order.partition
        self.body: Any = msgspec.json.decode(order.body, type=commands.BODIES[order.kind])

    @property
    def content(self) -> tuple[str, int, str, int, bytes]:
        """What is the same in each copy of it."""
        body = msgspec.json.encode(self.body)
        return self.kind, self.partition, self.job_id, self.epoch, body

    def __repr__(self) -> str:
        return f"{self.kind} {self.order.number} of {self.job_id or 'the worker'}: {self.body}"


class Said:
    """The commands in the order in which they came, and what was wrong with them.

    A command that comes again is a copy of the first one.
    """

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.copies: list[Told] = []
        self.faults: list[str] = []
        self._numbers: dict[tuple[str, int], int] = {}
        self._taken: set[int] = set()

    def add(self, order: Order, boot: str = "") -> Told:
        """Note a command of the worker with this boot; returns its first copy."""
        place = boot, order.partition
        newest = self._numbers.get(place, 0)
        if order.number <= newest:
            self.faults.append(f"number {order.number} of {order.partition} after {newest}")
        self._numbers[place] = order.number
        told = Told(order)
        if order.kind not in OF_THE_WORKER:
            for other in self.told:
                if other.content == told.content:
                    self.copies.append(told)
                    return other
        self.told.append(told)
        return told

    def all(self, kind: str, job_id: str | None = None) -> list[Told]:
        """The commands of a kind, each once."""
        return [t for t in self.told if t.kind == kind and job_id in (None, t.job_id)]

    def of_jobs(self) -> list[str]:
        """The kinds of all commands about jobs, each once, in their order."""
        return [told.kind for told in self.told if told.kind not in OF_THE_WORKER]

    async def next(self, kind: str, job_id: str | None = None) -> Told:
        """The next command of a kind that nobody has asked for yet."""

        def look() -> Told | None:
            for told in self.all(kind, job_id):
                if id(told) not in self._taken:
                    return told
            return None

        found = await come(look, f"{kind} of {job_id or 'any job'}; said: {self.told}")
        self._taken.add(id(found))
        return found

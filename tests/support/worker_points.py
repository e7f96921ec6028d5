"""The steps of a worker at which a test can end its process (`fault_points.WORKER_STEPS`)."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from streams.serde.records import Command, CommandBody, Ended, Heartbeat, Reply
from streams.serde.run_ends import PARKED
from streams.worker.lease.held_leases import Held
from streams.worker.link.commands import Commands
from streams.worker.link.contract import Acknowledged, Deadline
from streams.worker.worker import Worker
from support.fault_points import COMMANDS, FAULT_POINTS, FaultPoints


@cache
def _points() -> FaultPoints:
    return FaultPoints(Path(os.environ[FAULT_POINTS]))


def reach(step: str) -> None:
    """Do what a test has armed there."""
    _points().reach(step, 1)


def install() -> None:
    """Have this process tell its steps in the file that it shares with a test."""
    post, leased, replied, leave = Commands.post, Worker.leased, Worker.replied, Worker._leave

    def posting(
        self: Commands,
        partition: int,
        command: Command,
        until: Deadline,
        done: Acknowledged | None = None,
        *,
        once: bool = False,
    ) -> None:
        name = _name(command.body)

        def acked(error: Exception | None) -> None:
            if name and error is None:
                reach(f"acked {name}")
            if done is not None:
                done(error)

        if name:
            reach(f"sends {name}")
        post(self, partition, command, until, acked, once=once)

    def taking(self: Worker, held: Held) -> None:
        leased(self, held)
        if any(left.kind == "event" for left in held.lease.steps):
            reach("resumed")
        reach("leased")

    def hearing(self: Worker, reply: Reply) -> None:
        if reply.kind == "granted":
            reach("told")
        replied(self, reply)

    async def leaving(self: Worker) -> None:
        reach("sends leaving")
        await leave(self)
        reach("acked leaving")

    Commands.post = posting  # type: ignore[method-assign]
    Worker.leased = taking  # type: ignore[method-assign]
    Worker.replied = hearing  # type: ignore[method-assign]
    Worker._leave = leaving  # type: ignore[method-assign]


def _name(body: CommandBody) -> str | None:
    """What a worker says; a heartbeat counts that lists a lease."""
    if isinstance(body, Heartbeat):
        return "Heartbeat" if body.leases else None
    if isinstance(body, Ended) and body.status == PARKED:
        return "Park"
    name = type(body).__name__
    return name if name in COMMANDS else None

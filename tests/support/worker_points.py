"""The steps of a worker at which a test can end its process (`fault_points.WORKER_STEPS`)."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from streams.serde.codec import COMMAND, LEASE, REPLY
from streams.serde.records import Ended, Heartbeat
from streams.serde.run_ends import PARKED
from streams.worker.transport.contract import Done
from streams.worker.transport.kafka import KafkaTransport
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
    send, leased, replied = KafkaTransport.send, Worker.leased, Worker.replied

    def sending(
        self: KafkaTransport, topic: str, key: bytes, value: bytes, *, partition: int, done: Done
    ) -> None:
        name = _command(value) if topic == "jobs.commands" else None

        def acked(error: Exception | None) -> None:
            if name and error is None:
                reach(f"acked {name}")
            done(error)

        if name:
            reach(f"sends {name}")
        send(self, topic, key, value, partition=partition, done=acked)

    def taking(self: Worker, record: Any) -> None:
        leased(self, record)
        if any(left.kind == "event" for left in LEASE.decode(record.value).steps):
            reach("resumed")
        reach("leased")

    def hearing(self: Worker, record: Any) -> None:
        if REPLY.decode(record.value).kind == "granted":
            reach("told")
        replied(self, record)

    KafkaTransport.send = sending  # type: ignore[method-assign]
    Worker.leased = taking  # type: ignore[method-assign]
    Worker.replied = hearing  # type: ignore[method-assign]


def _command(value: bytes) -> str | None:
    """What a worker says, by its record; a heartbeat counts that lists a lease."""
    body = COMMAND.decode(value).body
    if isinstance(body, Heartbeat):
        return "leaving" if body.leaving else "Heartbeat" if body.leases else None
    if isinstance(body, Ended) and body.status == PARKED:
        return "Park"
    name = type(body).__name__
    return name if name in COMMANDS else None

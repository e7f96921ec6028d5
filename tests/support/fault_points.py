"""The steps of a stage's transaction at which a test can end or freeze its process.

A process and its test share one small file in memory. What stands in it outlives a SIGKILL, so it
proves where a fault landed: the process writes each step it reaches, and how many input records it
has in flight: taken up, and not yet both committed and written to its store.

    received       a task got records, and has done nothing with them
    offsets_sent   their positions are in the transaction
    produced       the first record of the transaction is at the broker, the others are not
    before_commit  all its records are at the broker
    after_commit   it is committed; no store knows
    before_write   one store is about to be written
    after_write    it is written; its task does not know

And beside them, with what stands in the transaction or the chunk for the number in flight:

    punctuated     timers fired, and no record is in flight
    restoring      a store is about to be written from its changelog

A worker has steps of its own (`WORKER_STEPS`, told by `worker_points.py`): it read a lease
(`leased`), also one after a wait (`resumed`), or a granted claim (`told`); its handler called a
tool, and nobody knows (`called pay`); it is about to send a command (`sends Claim`), or that one is
at the broker (`acked Claim`). The end of a run that parks is `Park`.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import confluent_kafka

from streams.runtime import transaction
from streams.runtime.own_records import NOTHING, Written
from streams.runtime.processor import Record
from streams.runtime.task import Task
from streams.state.key_value import KeyValueBackend
from streams.state.store import Backend, Changes, Checkpoint
from streams.state.window import WindowBackend

FAULT_POINTS = "FAULT_POINTS"
"""Environment variable: the file of a process under test."""

STEPS = (
    "received",
    "offsets_sent",
    "produced",
    "before_commit",
    "after_commit",
    "before_write",
    "after_write",
)
COMMANDS = ("Heartbeat", "Checkpoint", "Claim", "Outcome", "Ended", "Park")
WORKER_STEPS = (
    "leased",
    "told",
    "resumed",
    "called mail",
    "called pay",
    *(f"{when} {command}" for command in COMMANDS for when in ("sends", "acked")),
)
LEAVING_STEPS = ("sends leaving", "acked leaving")
_NAMES = ("idle", *STEPS, "punctuated", "restoring", *WORKER_STEPS, *LEAVING_STEPS)
_FLUSH_SECONDS = 10
# Bytes 0 and 1: step and signal that are armed. From 4: steps and records now, and at the fault.
_NOW, _LANDED = 4, 12
_PLACE = struct.Struct("=II")
_SIZE = 20


@dataclass(frozen=True)
class ProcessPosition:
    """Where a process is: the step it reached last, and its input records in flight."""

    step: str
    in_flight: int

    def __str__(self) -> str:
        return f"at {self.step} with {self.in_flight} in flight"


class FaultPoints:
    """The shared file; a test makes it with `create`, the process opens it."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _SIZE)

    @classmethod
    def create(cls, path: Path) -> FaultPoints:
        path.write_bytes(bytes(_SIZE))
        return cls(path)

    def arm(self, step: str, number: signal.Signals) -> None:
        """Have the process send itself this signal, once, at its next passing of that step."""
        _PLACE.pack_into(self._shared, _LANDED, 0, 0)
        self._shared[1] = number
        self._shared[0] = _NAMES.index(step)

    def disarm(self) -> None:
        self._shared[0] = 0

    @property
    def now(self) -> ProcessPosition:
        return self._place(_NOW)

    @property
    def landed(self) -> ProcessPosition | None:
        """Where the armed fault struck; None before."""
        place = self._place(_LANDED)
        return None if place.step == "idle" else place

    def awaits(self, step: str) -> bool:
        return bool(self._shared[0] == _NAMES.index(step))

    def reach(self, step: str, in_flight: int) -> None:
        """Note it, and do what is armed; a fault waits for records in flight."""
        place = _NAMES.index(step), in_flight
        _PLACE.pack_into(self._shared, _NOW, *place)
        if self._shared[0] == place[0] and in_flight:
            self._shared[0] = 0
            _PLACE.pack_into(self._shared, _LANDED, *place)
            # This thread must go no further: a signal to the whole process may stop it later.
            signal.pthread_kill(threading.get_ident(), self._shared[1])

    def _place(self, at: int) -> ProcessPosition:
        step, in_flight = _PLACE.unpack_from(self._shared, at)
        return ProcessPosition(_NAMES[step], in_flight)


class _Flight:
    """The records in flight of each task of this process."""

    def __init__(self, points: FaultPoints) -> None:
        self.points = points
        self._records: WeakKeyDictionary[Task, int] = WeakKeyDictionary()

    def take(self, task: Task, records: int) -> None:
        self._records[task] = self._records.get(task, 0) + records

    def end(self, *tasks: Task) -> None:
        """These are done, or all are dropped."""
        for task in tasks or list(self._records):
            self._records.pop(task, None)
        if not self._records:
            self.points.reach("idle", 0)

    def reach(self, step: str) -> None:
        self.points.reach(step, sum(self._records.values()))

    @property
    def empty(self) -> bool:
        return not self._records


def install() -> None:
    """Have the runtime of this process tell its steps, if a test shares a file with it."""
    shared = os.environ.get(FAULT_POINTS)
    if shared:
        flight = _Flight(FaultPoints(Path(shared)))
        transaction.Producer = _producer(flight)  # type: ignore[attr-defined]
        _follow_tasks(flight)
        for backend in (KeyValueBackend, WindowBackend):
            backend.write = _writing(flight, backend.write)  # type: ignore[method-assign, assignment]


def _producer(flight: _Flight) -> type[confluent_kafka.Producer]:
    class FaultyProducer(confluent_kafka.Producer):
        def abort_transaction(self, *args: Any) -> None:
            super().abort_transaction(*args)
            flight.end()

        def send_offsets_to_transaction(self, *args: Any) -> None:
            super().send_offsets_to_transaction(*args)
            flight.reach("offsets_sent")

        def produce(self, *args: Any, **kwargs: Any) -> None:
            super().produce(*args, **kwargs)
            self._reach("produced")

        def commit_transaction(self, *args: Any) -> None:
            self._reach("before_commit")
            super().commit_transaction(*args)
            flight.reach("after_commit")

        def _reach(self, step: str) -> None:
            if flight.points.awaits(step):
                self.flush(_FLUSH_SECONDS)
            flight.reach(step)

    return FaultyProducer


def _follow_tasks(flight: _Flight) -> None:
    process, punctuate, committed = Task.process, Task.punctuate, Task.committed
    close = Task.close

    def processing(self: Task, records: Sequence[Record]) -> None:
        flight.take(self, len(records))
        flight.reach("received")
        process(self, records)

    def punctuating(self: Task) -> None:
        if flight.points.awaits("punctuated") and not flight.empty:
            return  # its timers are to be alone in their transaction: next time
        punctuate(self)
        if flight.empty and self.ctx.outputs:
            flight.points.reach("punctuated", len(self.ctx.outputs))

    def committing(
        self: Task, changelog_offsets: Mapping[str, int], written: Mapping[str, Written] = NOTHING
    ) -> None:
        committed(self, changelog_offsets, written)
        flight.end(self)

    def closing(self: Task) -> None:
        close(self)
        flight.end(self)

    Task.process = processing  # type: ignore[method-assign]
    Task.punctuate = punctuating  # type: ignore[method-assign]
    Task.committed = committing  # type: ignore[method-assign]
    Task.close = closing  # type: ignore[method-assign]


def _writing(
    flight: _Flight, write: Callable[[Any, Changes, Checkpoint], None]
) -> Callable[[Backend, Changes, Checkpoint], None]:
    def writing(self: Backend, changes: Changes, checkpoint: Checkpoint) -> None:
        if flight.empty:
            if changes:
                flight.points.reach("restoring", len(changes))
            write(self, changes, checkpoint)
            return flight.points.reach("idle", 0)
        flight.reach("before_write")
        write(self, changes, checkpoint)
        return flight.reach("after_write")

    return writing

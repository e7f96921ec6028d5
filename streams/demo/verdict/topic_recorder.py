"""Records everything that the pipeline commits to its topics, from the outside.

A consumer of the demo's own reads the topics from their first record on, `read_committed`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from confluent_kafka import Message

from streams.demo.verdict.committed import CommittedReader
from streams.demo.world.subscribers import Place as Row
from streams.errors import DecodeError
from streams.kafka.offsets import Place
from streams.kafka.record_headers import headers_of
from streams.serde.codec import (
    COMMAND,
    DEAD_LETTER,
    DELIVERY,
    DELIVERY_ATTEMPT,
    ENVELOPE,
    JOB,
    LEDGER_ENTRY,
    SCHEDULE,
)
from streams.serde.delivery_records import Delivery, DeliveryAttempt
from streams.serde.job_states import LEASED
from streams.serde.records import (
    Command,
    DeadLetter,
    Envelope,
    Heartbeat,
    Job,
    LedgerEntry,
    Schedule,
)
from streams.settings import Settings

T = TypeVar("T")

_TAKEN = "tidegate-taken"
_BATCH, _WAIT_SECONDS = 2_000, 0.1
_READ: dict[str, tuple[Any, str]] = {
    "events.received": (ENVELOPE, "received"),
    "events": (ENVELOPE, "events"),
    "jobs.commands": (COMMAND, "commands"),
    "jobs": (JOB, "jobs"),
    "schedule": (SCHEDULE, "schedule"),
    "ledger": (LEDGER_ENTRY, "ledger"),
    "dlq": (DEAD_LETTER, "dead"),
    "deliveries": (DELIVERY, "deliveries"),
    "deliveries.attempts": (DELIVERY_ATTEMPT, "attempts"),
}
"""The topics, with how their records are decoded, and their names in `Records`."""


@dataclass(frozen=True, slots=True)
class Seen(Generic[T]):
    """A committed record: its timestamp `at`, and when it was read, in seconds since the epoch.

    `taken` says that its reader handled it in the transaction that wrote it.
    """

    topic: str
    partition: int
    offset: int
    at: float
    raw: bytes
    value: T
    read_at: float = 0.0
    taken: bool = False


@dataclass(frozen=True)
class Records:
    """All committed records of the topics, in the order of reading."""

    received: list[Seen[Envelope]] = field(default_factory=list)
    events: list[Seen[Envelope]] = field(default_factory=list)
    jobs: list[Seen[Job]] = field(default_factory=list)
    commands: list[Seen[Command]] = field(default_factory=list)
    schedule: list[Seen[Schedule]] = field(default_factory=list)
    ledger: list[Seen[LedgerEntry]] = field(default_factory=list)
    dead: list[Seen[DeadLetter]] = field(default_factory=list)
    deliveries: list[Seen[Delivery]] = field(default_factory=list)
    attempts: list[Seen[DeliveryAttempt]] = field(default_factory=list)

    @property
    def newest(self) -> dict[str, Job]:
        """Each job as in its newest record."""
        return {seen.value.job_id: seen.value for seen in self.jobs}

    @property
    def leased(self) -> dict[str, Job]:
        """By run, its job as it was when it was leased."""
        jobs = (seen.value for seen in self.jobs if seen.value.status in LEASED)
        return {job.run_id: job for job in jobs if job.run_id is not None}


class TopicRecorder:
    """Records by topic in the order of reading; runs as one task from `start` to `close`.

    `newest` is the newest record of each job, `rows` that of each delivery, and `commanded` when
    each command was first written.
    Heartbeats are left out: they are no work.
    """

    def __init__(self, settings: Settings) -> None:
        self._reader = CommittedReader(settings, _READ)
        self._task: asyncio.Task[None] | None = None
        self._at: dict[Place, int] = {}
        self._closing = False
        self._waiting: list[tuple[Callable[[Seen[Any]], bool], asyncio.Future[Seen[Any]]]] = []
        self.records = Records()
        self.newest: dict[str, Job] = {}
        self.rows: dict[Row, Delivery] = {}
        self.commanded: dict[bytes, float] = {}
        self.undecodable: list[str] = []

    def of(self, topic: str) -> list[Seen[Any]]:
        """Everything seen on one topic so far."""
        seen: list[Seen[Any]] = getattr(self.records, _READ[topic][1])
        return seen

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    def next_record(self, wanted: Callable[[Seen[Any]], bool]) -> asyncio.Future[Seen[Any]]:
        """The next record that a test accepts, reported at the moment when it is read."""
        future: asyncio.Future[Seen[Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, future))
        return future

    async def to_end(self) -> None:
        """Return when everything that is on the topics now has been read."""
        ends = await asyncio.to_thread(self._reader.ends)
        while any(self._at.get(place, 0) < end for place, end in ends.items()):
            if self._task and self._task.done():
                await self._task
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        self._closing = True
        if self._task:
            await self._task
        self._reader.close()

    async def _run(self) -> None:
        while not self._closing:
            messages, at = await asyncio.to_thread(self._read)
            for message in messages:
                self._take(message)
            self._at = at

    def _read(self) -> tuple[list[Message], dict[Place, int]]:
        """The next records, and how far each partition is read with them."""
        messages = self._reader.read(_BATCH, _WAIT_SECONDS)
        return messages, dict(self._reader.positions())

    def _take(self, message: Message) -> None:
        (topic, partition), raw = self._reader.place(message), message.value()
        if raw is None:
            return
        try:
            value = _READ[topic][0].decode(raw)
        except DecodeError as error:
            self.undecodable.append(f"{topic}: {error}")
            return
        if isinstance(value, Command) and isinstance(value.body, Heartbeat):
            return
        if isinstance(value, Job):
            self.newest[value.job_id] = value
        if isinstance(value, Delivery):
            self.rows[value.tenant_id, value.endpoint_id, value.message_id] = value
        seen = Seen(
            topic,
            partition,
            message.offset() or 0,
            message.timestamp()[1] / 1000,
            raw,
            value,
            time.time(),
            _is_taken(message),
        )
        self.of(topic).append(seen)
        if isinstance(value, Command):
            self.commanded.setdefault(raw, seen.at)
        self._tell(seen)

    def _tell(self, seen: Seen[Any]) -> None:
        for waiting in [w for w in self._waiting if w[1].done() or w[0](seen)]:
            self._waiting.remove(waiting)
            if not waiting[1].done():
                waiting[1].set_result(seen)


def _is_taken(message: Message) -> bool:
    return _TAKEN in dict(headers_of(message))

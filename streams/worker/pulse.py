"""Heartbeats: they keep leases alive and tell each partition how many more are taken."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from streams.serde.codec import COMMAND
from streams.serde.ids import new_id
from streams.serde.records import Command, Handler, Heartbeat
from streams.worker.holdings import Held, Holdings, as_listed
from streams.worker.transport import Transport

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who announces itself: `worker_id` is the instance and its boot."""

    worker_id: str
    pool: str
    handlers: tuple[Handler, ...]


class Pulse:
    """One heartbeat a partition of `jobs.commands`, from a thread of its own."""

    def __init__(
        self,
        identity: Identity,
        holdings: Holdings,
        transport: Transport,
        partitions: int,
        term_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self.identity = identity
        self.work_partition: int | None = None
        self.acknowledged = False
        self._holdings = holdings
        self._transport = transport
        self._partitions = partitions
        self._term = term_seconds
        self._clock = clock
        self._sent: OrderedDict[str, float] = OrderedDict()
        self._waiting: OrderedDict[int, None] = OrderedDict()
        self._wake = threading.Event()
        self._stopped = False

    def announce(self, work_partition: int | None) -> None:
        """Say at once where leases may be sent; without a partition only keep those in hand."""
        with self._holdings.lock:
            self._holdings.assigned = work_partition is not None
            if work_partition is not None:
                self.work_partition = work_partition
        self._wake.set()

    def wake(self) -> None:
        """Beat now: what heartbeats say has changed."""
        self._wake.set()

    def beat(self, partition: int | None = None) -> None:
        """Send one heartbeat, or one to each partition; silent before the first assignment."""
        targets = range(self._partitions) if partition is None else (partition,)
        for target in targets:
            with self._holdings.lock:
                if self.work_partition is not None:
                    self._send(target, self.work_partition)

    def sent_at(self, heartbeat_id: str) -> float | None:
        """When a heartbeat was sent; None for one that is unknown or too old to lease on."""
        with self._holdings.lock:
            return self._sent.get(heartbeat_id)

    def turned_away(self, partition: int) -> None:
        """A partition's lease found no slot: the next free one is offered to it."""
        with self._holdings.lock:
            self._waiting[partition] = None

    def slot_freed(self, told: int) -> None:
        """Offer the slot to the partition that waits longest; `told` knows of it already."""
        with self._holdings.lock:
            self._waiting.pop(told, None)
            if not self._waiting or self._holdings.free() == 0:
                return
            partition, _ = self._waiting.popitem(last=False)
        self.beat(partition)

    def run(self, every_seconds: float) -> None:
        """Beat until `stop`; the body of the heartbeat thread."""
        while not self._stopped:
            self._wake.clear()
            try:
                self.beat()
            except Exception:
                # Whatever it was, the leases need the next heartbeat.
                log.exception("heartbeat failed")
            self._wake.wait(every_seconds)

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()

    def _send(self, target: int, work_partition: int) -> None:
        now = self._clock()
        leases = self._holdings.listed(target)
        command = self._heartbeat(work_partition, leases)
        self._remember(command.command_id, now)

        def done(error: Exception | None) -> None:
            # One that fails is not repeated: the next says more.
            if error is None:
                self.acknowledged = True
                self._holdings.renew(leases, now)

        self._transport.send(
            "jobs.commands",
            self.identity.worker_id.encode(),
            COMMAND.encode(command),
            partition=target,
            done=done,
        )

    def _heartbeat(self, work_partition: int, leases: tuple[Held, ...]) -> Command:
        who = self.identity
        body = Heartbeat(
            who.worker_id, who.pool, work_partition,
            self._holdings.free(), as_listed(leases), who.handlers,
        )  # fmt: skip
        return Command(new_id("cmd"), "", "", 0, time.time_ns() // 10**6, body)

    def _remember(self, heartbeat_id: str, now: float) -> None:
        self._sent[heartbeat_id] = now
        while next(iter(self._sent.values())) < now - self._term:
            self._sent.popitem(last=False)

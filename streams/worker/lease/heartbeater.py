"""Sends heartbeats, which keep leases alive and tell each partition how many more are taken.

A heartbeat goes to every partition at the start, when the work partition changes, and when a
dispatcher asks for it. After that, partitions that have leases or credits of this worker get one
at each beat, and the others once a minute.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from streams.process.wall_clock import wall_ms
from streams.serde.codec import COMMAND
from streams.serde.ids import new_id
from streams.serde.records import Command, Handler, Heartbeat, HeldLease
from streams.topology.model import LeasePolicy
from streams.worker.lease.held_leases import HeldLeases, as_listed
from streams.worker.transport.contract import Transport
from streams.worker.transport.retrying_sender import Letter, RetryingSender

log = structlog.get_logger(__name__)

IDLE_SECONDS = 60.0
"""How old the last heartbeat may be to a partition without leases and credits of this worker."""

_FRESH_HEARTBEATS = 2.5
_PROMPT_SECONDS = 0.1
"""Less than the pause before a record is sent again."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity in heartbeats; `worker_id` consists of the instance and its boot."""

    worker_id: str
    pool: str
    handlers: tuple[Handler, ...]


class Heartbeater:
    """Sends heartbeats to the partitions of `jobs.commands`, from a thread of its own.

    The caller that changes something sends it at once; the thread repeats failed heartbeats.
    """

    def __init__(
        self,
        identity: Identity,
        held_leases: HeldLeases,
        transport: Transport,
        partitions: int,
        policy: LeasePolicy,
        clock: Callable[[], float],
    ) -> None:
        self.identity = identity
        self.work_partition: int | None = None
        self._held_leases = held_leases
        self._transport = transport
        self._partitions = partitions
        self._policy = policy
        self._clock = clock
        self._sent: OrderedDict[str, float] = OrderedDict()
        self._introduced: dict[int, float] = {}
        self._acknowledged_at = float("-inf")
        self._round = 0
        self._wake = threading.Event()
        self._stopped = False

    @property
    def heard(self) -> bool:
        """A heartbeat was acknowledged lately."""
        fresh = self._policy.heartbeat_seconds * _FRESH_HEARTBEATS
        return self._clock() - self._acknowledged_at <= fresh

    def announce(self, work_partition: int | None) -> None:
        """Say at once where leases may be sent; without a partition only keep those in hand."""
        with self._held_leases.lock:
            self._held_leases.assigned = work_partition is not None
            if work_partition is not None:
                self.work_partition = work_partition
                self._held_leases.credits.share(work_partition * self._held_leases.slots)
        self.introduce()

    def introduce(self, partition: int | None = None) -> None:
        """Tell one partition, or all of them, who this is and what it handles."""
        with self._held_leases.lock:
            if partition is None:
                self._round += 1
                self._introduced.clear()
            elif partition not in range(self._partitions):
                return
            else:
                self._introduced.pop(partition, None)
            self.beat(partition)

    def beat(self, partition: int | None = None) -> None:
        """Send one heartbeat, or one to each partition that is due one."""
        targets = range(self._partitions) if partition is None else (partition,)
        with self._held_leases.lock:
            owed = set(self._held_leases.owed())
            for target in targets:
                if partition is not None or target in owed or self._is_due(target):
                    self._send(target)

    def tell(self) -> None:
        """Send a heartbeat to each partition whose credits differ from what it was told."""
        with self._held_leases.lock:
            for target in self._held_leases.owed():
                self._send(target)

    def said(self, target: int, since: float) -> None:
        """Note that a record of another kind, first sent at `since`, told a partition its credits.

        If it had to be repeated, it may have arrived after newer numbers: send those again.
        """
        if self._clock() - since > _PROMPT_SECONDS:
            with self._held_leases.lock:
                self._held_leases.credits.untold(target)
                self.tell()

    def sent_at(self, heartbeat_id: str) -> float | None:
        """When a heartbeat was sent; None for one that is unknown or too old to lease on."""
        with self._held_leases.lock:
            return self._sent.get(heartbeat_id)

    def run(self, every_seconds: float) -> None:
        """Beat until `stop`; the body of the heartbeat thread."""
        while not self._wake.wait(every_seconds):
            try:
                self.beat()
            except Exception:
                # After any error, the leases need the next heartbeat.
                log.exception("heartbeat failed")

    def stop(self) -> None:
        """Send no more heartbeats."""
        with self._held_leases.lock:
            self._stopped = True
        self._wake.set()

    async def leave(self, sender: RetryingSender, seconds: float) -> None:
        """Send the last heartbeat of a process that ends in order; return when it is durable.

        Tell nothing to a partition whose leases are still held: their runs have not reported their
        end, so that partition waits until their terms are over.
        """
        self.stop()
        until = self._clock() + seconds
        with self._held_leases.lock:
            if self.work_partition is None:
                return
            free_of_leases = [p for p in range(self._partitions) if not self._held_leases.listed(p)]
            letters = [self._farewell(p) for p in free_of_leases]
            sending = [sender.send(letter, lambda: until) for letter in letters]
        done, late = await asyncio.wait(sending, timeout=seconds) if sending else (set(), set())
        if late or any(answer.exception() for answer in done):
            log.warning("the dispatcher was not told that this worker leaves", seconds=seconds)

    def _is_due(self, target: int) -> bool:
        idle = self._clock() - self._introduced.get(target, float("-inf"))
        return idle >= IDLE_SECONDS or self._held_leases.concerns(target)

    def _send(self, target: int) -> None:
        """Send a heartbeat, but none before the first assignment or after the last one."""
        if self.work_partition is None or self._stopped:
            return
        now, round_ = self._clock(), self._round
        leases = self._held_leases.listed(target)
        told = as_listed(leases)
        command = self._command(*self._held_leases.tell(target), told)
        self._remember(command.command_id, now)

        def done(error: Exception | None) -> None:
            with self._held_leases.lock:
                if error is not None:  # do not repeat it: the next heartbeat has newer values
                    self._held_leases.credits.untold(target)
                    return
                self._acknowledged_at = max(self._acknowledged_at, self._clock())
                self._held_leases.renew(leases, now, told)
                if round_ == self._round:
                    self._introduced[target] = now

        self._transport.send(
            "jobs.commands",
            self.identity.worker_id.encode(),
            COMMAND.encode(command),
            partition=target,
            done=done,
        )

    def _farewell(self, target: int) -> Letter:
        _, received = self._held_leases.word(target)
        key, value = self.identity.worker_id.encode(), COMMAND.encode(self._command(0, received))
        return Letter("jobs.commands", key, value, target, "the last heartbeat")

    def _command(self, free: int, received: int, leases: tuple[HeldLease, ...] = ()) -> Command:
        """A heartbeat; one that is sent after `stop` says that this worker leaves."""
        who, leaving = self.identity, self._stopped
        body = Heartbeat(
            who.worker_id,
            who.pool,
            self.work_partition or 0,
            free,
            leases,
            () if leaving else who.handlers,
            received=received,
            leaving=leaving,
        )
        return Command(new_id("cmd"), "", "", 0, wall_ms(), body)

    def _remember(self, heartbeat_id: str, now: float) -> None:
        self._sent[heartbeat_id] = now
        while next(iter(self._sent.values())) < now - self._policy.term_seconds:
            self._sent.popitem(last=False)

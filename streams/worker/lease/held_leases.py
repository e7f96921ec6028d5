"""Tracks the leases that this worker holds, how long each is valid, and how many more it takes.

The term of a lease counts from the *sending* of the newest acknowledged heartbeat that listed it,
and at first from the beat that the lease answers. The owner counts from reading the same one, which
is later.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from streams.serde.records import HeldLease, Lease
from streams.worker import metrics
from streams.worker.lease.credits import Credits, Source

GRACE_SECONDS = 5.0
"""A run may wind up for this long past its timeout while its lease is still listed."""

_REMEMBERED = 10_000


@dataclass(slots=True, eq=False)
class Held:
    """A lease that this worker holds; times are on the worker's clock, in seconds.

    `started_at` is infinite until a lease that must run alone begins. Such a lease `waits` until no
    other run is left, and is `announced` once a heartbeat that says so was acknowledged. One that
    waits for slots is without a start, and `waits`, too; `weight` is how many it fills.
    `source` gave the lease, and gets its credit back. `term` is that of the owners since then: an
    heir with another topology may count a shorter one than the lease has.
    """

    lease: Lease
    basis: float
    started_at: float
    margin: float
    running: bool = True
    lost: bool = False
    waits: bool = False
    announced: bool = False
    weight: int = 1
    source: Source = None
    term: float = math.inf

    @property
    def valid_until(self) -> float:
        """The moment from which on the run must not start anything."""
        return self.expires_at - self.margin

    @property
    def expires_at(self) -> float:
        """The earliest moment at which the dispatcher may give the job to another."""
        return self.basis + min(self.term, self.lease.term_seconds)

    @property
    def timeout_at(self) -> float:
        return self.started_at + self.lease.timeout_seconds

    @property
    def id(self) -> tuple[str, int]:
        return self.lease.job_id, self.lease.epoch


class HeldLeases:
    """Thread-safe; `lock` also keeps messages about leases and slots in order.

    Each of `watchers` is called after a run left its slot and after a lease was renewed.
    """

    def __init__(self, slots: int, margin: float, clock: Callable[[], float]) -> None:
        self.lock = threading.RLock()
        self.slots = slots
        self.draining = False
        self.blocked = False
        self.assigned = False
        self.watchers: list[Callable[[], None]] = []
        self.beside: list[HeldLeases] = []
        """Those of other pools, whose handlers run in the same process."""
        self.credits = Credits(slots, clock)
        self.margin = margin
        self._clock = clock
        self._held: dict[tuple[str, int], Held] = {}
        self._slots: dict[Held, None] = {}  # running leases, in order
        self._filled = 0
        self._alone: dict[Held, None] = {}  # those among them that run alone
        self._read: OrderedDict[str, None] = OrderedDict()

    def read(self, lease: Lease, source: Source) -> bool:
        """Count a lease; False if it was read before."""
        with self.lock:
            if lease.run_id in self._read:
                return False
            self._read[lease.run_id] = None
            if len(self._read) > _REMEMBERED:
                self._read.popitem(last=False)
            self.credits.read(source)
            return True

    def take(self, lease: Lease, basis: float, source: Source) -> Held | None:
        """Fill a slot; if none is free, return None."""
        with self.lock:
            if self.free() == 0:
                return None
            self.credits.use(source)
            started_at = float("inf") if lease.alone else self._clock()
            held = Held(lease, basis, started_at, self.margin, waits=lease.alone, source=source)
            self._held[held.id] = held
            self._slots[held] = None
            if lease.alone:
                self._alone[held] = None
            self._fill(1)
            return held

    def widen(self, held: Held, weight: int) -> None:
        """Let a lease fill more slots: free ones now, and then those that other runs leave."""
        with self.lock:
            if held in self._slots:
                self.credits.withhold(weight - held.weight)
                self._fill(weight - held.weight)
                held.weight = weight

    def usable(self, lease: Lease) -> float:
        """For how many seconds after its heartbeat was sent a lease may start something."""
        return lease.term_seconds - self.margin

    def follow_term(self, partition: int, seconds: float) -> None:
        """Count no longer terms for leases of a partition than its owner does now."""
        with self.lock:
            for held in self._held.values():
                if held.lease.home_partition == partition:
                    held.term = min(held.term, seconds)

    def vacate(self, held: Held) -> None:
        """Free the slot of a run that is over, even if its end is not acknowledged yet."""
        with self.lock:
            held.running = False
            del self._slots[held]
            self._alone.pop(held, None)
            for _ in range(held.weight):
                self.credits.give(held.source)
            self._fill(-held.weight)
        self.changed()

    def drop(self, held: Held) -> None:
        """Stop listing a lease about which nothing is left to report."""
        with self.lock:
            held.lost = True
            if not held.running:
                self._held.pop(held.id, None)

    def free(self) -> int:
        """How many leases the worker takes now."""
        with self.lock:
            return 0 if self._closed() else max(0, self.slots - self._filled)

    def tell(self, source: Source) -> tuple[int, int]:
        """How many more leases a source may send, and how many of its leases were read.

        The caller tells it before the lock is released.
        """
        with self.lock:
            return self.credits.tell(source, self._closed())

    def owed(self) -> list[Source]:
        """Sources whose credits have changed since they were last told."""
        with self.lock:
            return self.credits.owed(self._closed())

    def homes(self) -> set[int]:
        """The partitions whose leases are held."""
        with self.lock:
            return {held.lease.home_partition for held in self._held.values()}

    def listed(self, partition: int) -> tuple[Held, ...]:
        """The leases of a home partition that a heartbeat keeps alive.

        A lease whose run is past its timeout and grace is not listed: nothing would end that run.
        """
        now = self._clock()
        with self.lock:
            return tuple(
                held
                for held in self._held.values()
                if held.lease.home_partition == partition
                and not held.lost
                and (now <= held.timeout_at + GRACE_SECONDS or not held.running)
            )

    def renew(self, leases: Iterable[Held], sent_at: float, told: Iterable[HeldLease]) -> None:
        """Renew the leases of an acknowledged heartbeat, which listed them as `told`.

        One whose term is over by then stays over: the job may be another worker's already.
        """
        now = self._clock()
        with self.lock:
            for held, said in zip(leases, told, strict=True):
                if now < held.expires_at:
                    held.basis = max(held.basis, sent_at)
                held.announced |= not said.waits
        self.changed()

    def changed(self) -> None:
        """Tell each watcher that it may look again."""
        for tell in self.watchers:
            tell()

    def running(self) -> list[Held]:
        with self.lock:
            return list(self._slots)

    def in_process(self) -> list[Held]:
        """The runs of all pools of the process."""
        return [held for each in (self, *self.beside) for held in each.running()]

    def _fill(self, slots: int) -> None:
        self._filled += slots
        metrics.RUNNING.inc(slots)

    def _closed(self) -> bool:
        """Whether no slot is offered; this is also so while one lease runs alone in the process."""
        lone = [held for each in (self, *self.beside) for held in list(each._alone)]
        alone = any(not held.lost for held in lone)
        return self.draining or self.blocked or not self.assigned or alone


def as_listed(leases: Iterable[Held]) -> tuple[HeldLease, ...]:
    """Leases as a heartbeat names them."""
    return tuple(HeldLease(*held.id, held.waits) for held in leases)

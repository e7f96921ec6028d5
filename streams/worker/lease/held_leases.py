"""Which leases this worker holds, how long each is valid, and how many more it takes.

A lease counts from the *sending* of the newest acknowledged heartbeat that listed it, at first
of the one it answers: the dispatcher counts from reading that same heartbeat, which is later.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from streams.serde.records import HeldLease, Lease
from streams.worker import metrics
from streams.worker.lease.credits import Credits

GRACE_SECONDS = 5.0
"""How long past its timeout a run may still be winding up under a listed lease."""

_REMEMBERED = 10_000


@dataclass(slots=True, eq=False)
class Held:
    """A lease in hand; times on the worker's clock, in seconds.

    `started_at` is infinite until a lease that is to run alone begins. It `waits` until no other
    run is left, and is `announced` once a heartbeat that says so was acknowledged.
    """

    lease: Lease
    basis: float
    started_at: float
    margin: float
    running: bool = True
    lost: bool = False
    waits: bool | None = None
    announced: bool = False

    @property
    def valid_until(self) -> float:
        """When the run must have stopped starting things."""
        return self.expires_at - self.margin

    @property
    def expires_at(self) -> float:
        """The earliest moment at which the dispatcher may give the job to another."""
        return self.basis + self.lease.term_seconds

    @property
    def timeout_at(self) -> float:
        return self.started_at + self.lease.timeout_seconds

    @property
    def id(self) -> tuple[str, int]:
        return self.lease.job_id, self.lease.epoch


class HeldLeases:
    """Thread-safe; `lock` also keeps the order of what is said about leases and slots.

    `changed` is called after a run left its slot and after a lease was renewed.
    """

    def __init__(
        self, slots: int, margin: float, partitions: int, clock: Callable[[], float]
    ) -> None:
        self.lock = threading.RLock()
        self.slots = slots
        self.draining = False
        self.blocked = False
        self.assigned = False
        self.changed: Callable[[], None] = lambda: None
        self.credits = Credits(partitions, slots, clock)
        self._margin = margin
        self._clock = clock
        self._held: dict[tuple[str, int], Held] = {}
        self._slots: dict[Held, None] = {}  # leases that run, in their order
        self._alone: dict[Held, None] = {}  # those of them that have the worker to themselves
        self._read: OrderedDict[str, None] = OrderedDict()

    def read(self, lease: Lease) -> bool:
        """Count a lease; False for one read before: a rebalance reads some records twice."""
        with self.lock:
            if lease.run_id in self._read:
                return False
            self._read[lease.run_id] = None
            if len(self._read) > _REMEMBERED:
                self._read.popitem(last=False)
            self.credits.read(lease.home_partition, lease.number)
            return True

    def take(self, lease: Lease, basis: float) -> Held | None:
        """Fill a slot; None if there is none, and then the lease's partition waits for one."""
        with self.lock:
            if self.free() == 0:
                self.credits.want(lease.home_partition)
                return None
            self.credits.use(lease.home_partition)
            started_at = float("inf") if lease.alone else self._clock()
            waits = True if lease.alone else None
            held = Held(lease, basis, started_at, self._margin, waits=waits)
            self._held[held.id] = held
            self._slots[held] = None
            if lease.alone:
                self._alone[held] = None
            metrics.RUNNING.set(len(self._slots))
            return held

    def usable(self, lease: Lease) -> float:
        """Seconds after its heartbeat's sending during which a lease may start something."""
        return lease.term_seconds - self._margin

    def vacate(self, held: Held) -> None:
        """The run is over: its slot is free, though its end may not be acknowledged yet."""
        with self.lock:
            held.running = False
            del self._slots[held]
            self._alone.pop(held, None)
            self.credits.give(held.lease.home_partition)
            metrics.RUNNING.set(len(self._slots))
        self.changed()

    def drop(self, held: Held) -> None:
        """Nothing is left to say about this lease: list it no more."""
        with self.lock:
            held.lost = True
            if not held.running:
                self._held.pop(held.id, None)

    def free(self) -> int:
        """How many leases the worker takes now."""
        with self.lock:
            return 0 if self._closed() else max(0, self.slots - len(self._slots))

    def word(self, partition: int) -> tuple[int, int]:
        """What a partition may send more, and how many of its leases were read."""
        with self.lock:
            return self.credits.word(partition, self._closed())

    def tell(self, partition: int) -> tuple[int, int]:
        """`word`, in something that is sent to the partition before the lock is released."""
        with self.lock:
            return self.credits.tell(partition, self._closed())

    def owed(self) -> list[int]:
        """Partitions that were last told something else than holds now."""
        with self.lock:
            return self.credits.owed(self._closed())

    def concerns(self, partition: int) -> bool:
        """Whether a partition has leases or credits of this worker."""
        with self.lock:
            return bool(self.credits.unused(partition) or self.listed(partition))

    def listed(self, partition: int) -> tuple[Held, ...]:
        """The leases of a home partition that a heartbeat keeps alive.

        One that ran past its timeout and grace is not: nobody is left who would end it.
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
        """A heartbeat that listed these, as `told`, was acknowledged."""
        with self.lock:
            for held, said in zip(leases, told, strict=True):
                held.basis = max(held.basis, sent_at)
                held.announced |= said.waits is False
        self.changed()

    def running(self) -> list[Held]:
        with self.lock:
            return list(self._slots)

    def _closed(self) -> bool:
        """Whether no slot is offered at all, as long as one lease has all to itself, too."""
        alone = any(not held.lost for held in self._alone)
        return self.draining or self.blocked or not self.assigned or alone


def as_listed(leases: Iterable[Held]) -> tuple[HeldLease, ...]:
    """Leases as a heartbeat names them."""
    return tuple(HeldLease(*held.id, held.waits) for held in leases)

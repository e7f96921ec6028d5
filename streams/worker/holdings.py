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

GRACE_SECONDS = 5.0
"""How long past its timeout a run may still be winding up under a listed lease."""

_REMEMBERED = 10_000


@dataclass(slots=True, eq=False)
class Held:
    """A lease in hand; times on the monotonic clock, in seconds."""

    lease: Lease
    basis: float
    taken_at: float
    margin: float
    running: bool = True
    lost: bool = False

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
        return self.taken_at + self.lease.timeout_seconds

    @property
    def id(self) -> tuple[str, int]:
        return self.lease.job_id, self.lease.epoch


class Holdings:
    """Thread-safe; `lock` also keeps the order of what is said about the leases."""

    def __init__(self, slots: int, margin: float, clock: Callable[[], float]) -> None:
        self.lock = threading.RLock()
        self.draining = False
        self.blocked = False
        self.assigned = False
        self._slots = slots
        self._margin = margin
        self._clock = clock
        self._held: dict[tuple[str, int], Held] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()

    def take(self, lease: Lease, basis: float) -> Held | None:
        """Fill a slot; None if there is none."""
        with self.lock:
            if self.free() == 0:
                return None
            held = Held(lease, basis, self._clock(), self._margin)
            self._held[held.id] = held
            self._remember(lease.run_id)
            metrics.RUNNING.set(self._occupied())
            return held

    def usable(self, lease: Lease) -> float:
        """Seconds after its heartbeat's sending during which a lease may start something."""
        return lease.term_seconds - self._margin

    def seen(self, lease: Lease) -> bool:
        """Whether this very lease was taken before: a rebalance reads some records twice."""
        return lease.run_id in self._seen

    def vacate(self, held: Held) -> None:
        """The run is over: its slot is free, though its end may not be acknowledged yet."""
        with self.lock:
            held.running = False
            metrics.RUNNING.set(self._occupied())

    def drop(self, held: Held) -> None:
        """Nothing is left to say about this lease: list it no more."""
        with self.lock:
            held.lost = True
            if not held.running:
                self._held.pop(held.id, None)

    def free(self) -> int:
        """How many leases the worker takes now."""
        with self.lock:
            if self.draining or self.blocked or not self.assigned:
                return 0
            return max(0, self._slots - self._occupied())

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

    def renew(self, leases: Iterable[Held], sent_at: float) -> None:
        """A heartbeat that listed these was acknowledged."""
        with self.lock:
            for held in leases:
                held.basis = max(held.basis, sent_at)

    def running(self) -> list[Held]:
        with self.lock:
            return [held for held in self._held.values() if held.running]

    def _occupied(self) -> int:
        return sum(held.running for held in self._held.values())

    def _remember(self, run_id: str) -> None:
        self._seen[run_id] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)


def as_listed(leases: Iterable[Held]) -> tuple[HeldLease, ...]:
    """Leases as a heartbeat names them."""
    return tuple(HeldLease(*held.id) for held in leases)

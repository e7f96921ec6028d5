"""Credits of many workers and partitions under mixed jobs: near the ideal, without starving."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest
from support.leases import lease_to

from streams.serde.records import Lease
from streams.worker.lease.held_leases import Held, HeldLeases


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Known:
    """A worker as one partition's dispatcher knows it: what it told, and leases sent to it."""

    free: int = 0
    received: int = 0
    sent: int = 0

    @property
    def left(self) -> int:
        return self.free - max(0, self.sent - self.received)


@dataclass
class World:
    """Workers' holdings and simple dispatchers, with delays between them, in virtual time."""

    workers: int
    slots: int
    partitions: int
    delay: Callable[[], float]
    clock: Clock = field(default_factory=Clock)
    declined: int = 0
    leased: int = 0

    def __post_init__(self) -> None:
        self.count = itertools.count()
        self.agenda: list[tuple[float, int, Callable[[], None]]] = []
        self.ready: dict[int, deque[float]] = defaultdict(deque)
        self.known = [[Known() for _ in range(self.workers)] for _ in range(self.partitions)]
        self.asked = [[-9.0] * self.workers for _ in range(self.partitions)]
        self.arrival: dict[object, float] = {}
        self.fed = [0.0] * self.partitions
        self.starved = 0.0
        self.ended = 0
        self.held_leases = [HeldLeases(self.slots, 5, self.clock) for _ in range(self.workers)]
        for number, held_leases in enumerate(self.held_leases):
            held_leases.assigned = True
            held_leases.credits.dialed = self.partitions
            for partition in range(self.partitions):
                held_leases.credits.open((number + partition) % self.partitions)
            self.look(number)
        for partition in range(self.partitions):
            self.after(0, lambda p=partition: self.tick(p))  # type: ignore[misc]

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.agenda, (self.clock.now + seconds, next(self.count), what))

    def send(self, channel: object, what: Callable[[], None]) -> None:
        """Delivered after a delay, in the order of sending on one channel."""
        at = max(self.clock.now + self.delay(), self.arrival.get(channel, 0))
        self.arrival[channel] = at
        self.after(at - self.clock.now, what)

    def run(self, until: Callable[[], bool], seconds: float = 10_000) -> None:
        while not until():
            at, _, what = heapq.heappop(self.agenda)
            assert at < seconds, "it does not end"
            self.clock.now = at
            what()
            for held_leases in self.held_leases:
                told = [held_leases.credits.unused(p) for p in range(self.partitions)]
                assert sum(told) == held_leases.free()

    def look(self, worker: int) -> None:
        """As the link's tick."""
        self.held_leases[worker].credits.level()
        self.tell(worker)
        self.after(0.25, lambda: self.look(worker))

    def tell(self, worker: int) -> None:
        for partition in self.held_leases[worker].owed():
            self.say(worker, partition)

    def say(self, worker: int, partition: int) -> None:
        word = self.held_leases[worker].tell(partition)
        self.send(("up", worker, partition), lambda: self.hear(partition, worker, word))

    def hear(self, partition: int, worker: int, word: tuple[int, int]) -> None:
        known = self.known[partition][worker]
        known.free, known.received = word
        self.lease(partition)

    def submit(self, partition: int, seconds: float) -> None:
        if not self.ready[partition]:
            self.fed[partition] = self.clock.now
        self.ready[partition].append(seconds)
        self.lease(partition)

    def tick(self, partition: int) -> None:
        """As the dispatcher's punctuation: each 100 ms."""
        self.lease(partition)
        self.after(0.1, lambda: self.tick(partition))

    def lease(self, partition: int) -> None:
        while self.ready[partition]:
            self.starved = max(self.starved, self.clock.now - self.fed[partition])
            best = max(range(self.workers), key=lambda w: self.known[partition][w].left)
            known = self.known[partition][best]
            if known.left <= 0:
                self.ask(partition)
                return
            known.sent += 1
            self.leased += 1
            self.fed[partition] = self.clock.now
            seconds = self.ready[partition].popleft()
            lease = replace(lease_to(partition), run_id=f"{next(self.count)}")
            self.send(("down", best), lambda b=best, ls=lease, s=seconds: self.read(b, ls, s))  # type: ignore[misc]

    def ask(self, partition: int) -> None:
        for worker in range(self.workers):
            if self.clock.now - self.asked[partition][worker] >= 1:
                self.asked[partition][worker] = self.clock.now
                self.send(("down", worker), lambda w=worker: self.wanted(w, partition))  # type: ignore[misc]

    def wanted(self, worker: int, partition: int) -> None:
        self.held_leases[worker].credits.want(partition)
        self.tell(worker)

    def read(self, worker: int, lease: Lease, seconds: float) -> None:
        held_leases, home = self.held_leases[worker], lease.home_partition
        assert held_leases.read(lease, home)
        held = held_leases.take(replace(lease, job_id=lease.run_id), self.clock.now, home)
        if held is None:
            self.declined += 1
            self.say(worker, home)
            self.send(("up", worker, home), lambda: self.submit(home, seconds))
        else:
            self.after(seconds, lambda: self.end(worker, held))
        self.tell(worker)

    def end(self, worker: int, held: Held) -> None:
        self.ended += 1
        self.held_leases[worker].vacate(held)
        self.held_leases[worker].drop(held)
        self.say(worker, held.lease.home_partition)
        self.tell(worker)


def ideal(jobs: list[float], slots: int) -> float:
    """When the last job ends if each starts, in order, as soon as any slot is free."""
    free = [0.0] * slots
    for seconds in jobs:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


def mixed(rng: random.Random) -> list[float]:
    """200 jobs from half a second to six."""
    return [rng.choice((0.5, 1, 2, 6)) * rng.uniform(0.8, 1.2) for _ in range(200)]


def delays(rng: random.Random) -> Iterator[float]:
    while True:
        yield rng.uniform(0.005, 0.05)


@pytest.mark.parametrize("spread", ["even", "uneven", "one partition", "one after another"])
@pytest.mark.parametrize("seed", range(5))
def test_four_workers_of_eight_slots_end_200_mixed_jobs_near_the_ideal(
    seed: int, spread: str
) -> None:
    rng = random.Random(seed)
    world = World(4, 8, 4, delays(rng).__next__)
    jobs = mixed(rng)
    for number, seconds in enumerate(jobs):
        partition = {
            "even": number % 4,
            "uneven": rng.choices(range(4), (8, 4, 2, 1))[0],
            "one partition": 2,
            "one after another": number // 50,
        }[spread]
        world.submit(partition, seconds)
    world.run(lambda: world.ended == len(jobs))
    assert world.clock.now <= 1.25 * ideal(jobs, 32)
    assert world.declined <= 0.02 * len(jobs)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_no_partition_with_ready_jobs_waits_without_end(seed: int) -> None:
    """Few slots for many partitions, slow brokers, jobs now here and now there."""
    rng = random.Random(seed)
    slow = rng.choice((0.01, 0.2, 0.8))
    workers, slots, partitions = rng.randint(1, 5), rng.randint(1, 4), rng.randint(1, 12)
    world = World(workers, slots, partitions, lambda: rng.uniform(slow / 5, slow))
    jobs = rng.randint(50, 150)
    at = 0.0
    for number in range(jobs):
        at += rng.expovariate(workers * slots)
        partition = rng.randrange(partitions) if rng.random() < 0.3 else number // 40 % partitions
        seconds = rng.uniform(0.05, 1.5)
        world.after(at, lambda p=partition, s=seconds: world.submit(p, s))  # type: ignore[misc]
    world.run(lambda: world.ended == jobs)
    # Each of the others may have its turn before: a job, and the way there and back.
    assert world.starved <= 5 + partitions * (1.5 + 2 * slow)
    assert world.declined <= max(3, 0.25 * world.leased)

"""How close credits come to the ideal schedule, on the virtual clock.

200 jobs of one to nine seconds come at once, of 20 tenants over four partitions of one process, to
four workers of eight slots. Dispatcher, both ends of the link, credits and heartbeats are the
product's own; only what handlers do is a sleep. The ideal is the time that a machine of 32 slots
would take which knows no partitions, by list scheduling in the order of the jobs' arrival. In the
second figure all jobs are of one tenant, and so of one partition.
"""

from __future__ import annotations

import math
import random
from heapq import heapreplace

from harness import Result
from uuid_utils import uuid7

from streams import dispatcher, scheduler
from streams.link.grant import Grant
from streams.link.memory import MemoryConnection
from streams.link.owner import Owner
from streams.link.terms import Terms
from streams.runtime.driver import TopologyTestDriver
from streams.runtime.link import Link as StageLink
from streams.runtime.link import Workers
from streams.serde.codec import COMMAND
from streams.serde.ids import new_id, partition_for
from streams.serde.link import frames
from streams.serde.link.messages import Order
from streams.serde.records import Command, Ended, Handler, Reply, Submit
from streams.topology.load import load
from streams.topology.model import Topology
from streams.worker.lease.held_leases import Held, HeldLeases
from streams.worker.link.identity import Identity
from streams.worker.link.link import Link

WORKERS, SLOTS, JOBS, TENANTS = 4, 8, 200, 20
TICK = 0.05
_MOST_SECONDS = 600.0
_ALL = Grant("", "bench")


def schedule() -> list[tuple[Result, float | None]]:
    """The time to the last end as a multiple of the ideal, and how many leases were declined."""
    rows: list[tuple[Result, float | None]] = []
    for tenants in (TENANTS, 1):
        name = f"{WORKERS} workers x {SLOTS} slots, {JOBS} jobs, {tenants} tenants"
        took, ideal, declined = Shop(tenants).run()
        rows.append((Result(name, "schedule", took / ideal, "times the ideal"), 1.25))
        rows.append((Result(name, "declined: full", declined, "leases"), JOBS * 0.02))
    return rows


class SimulatedWorker:
    """The product's leases, credits and link, of which it is the `Inbox` and the `Connection`.

    Runs are moments at which they end.
    """

    def __init__(self, shop: Shop, number: int) -> None:
        self.shop = shop
        self.name = f"w{number}"
        self.held_leases = HeldLeases(SLOTS, 5, shop.now)
        identity = Identity(self.name, str(uuid7()), "default", (Handler("sleep", 3, (), 60),))
        self.link = Link(identity, self.held_leases, self, shop.now)
        self._ends = MemoryConnection(shop.owner, _ALL)
        self._waiting: list[bytes] = []
        self._runs: list[tuple[float, Held]] = []
        self.link.opened(self)

    def act(self) -> None:
        """End what has slept enough, and do what is due."""
        for due, held in [run for run in self._runs if run[0] <= self.shop.now()]:
            self._runs.remove((due, held))
            self._end(held)
        self.link.tick()

    def write(self) -> None:
        """Hand the owner what was sent."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._ends.send_frame(frames.joined(waiting))

    def read(self) -> None:
        """Receive what the owner has sent."""
        while frame := self._ends.frame():
            self.link.received(self, frame)

    def send(self, message: bytes) -> None:
        (said,) = frames.from_worker(frames.joined([message]))
        self.shop.declined += isinstance(said, Order) and said.kind == "declined"
        self._waiting.append(message)

    def close(self, why: str) -> None:
        raise SystemExit(f"the connection of {self.name} ends: {why}")

    def leased(self, held: Held) -> None:
        self._runs.append((self.shop.now() + self.shop.seconds[held.lease.job_id], held))

    def replied(self, reply: Reply) -> None:
        if reply.job_id in {held.lease.job_id for _, held in self._runs}:
            raise SystemExit(f"a run is told {reply.kind}")

    def failed(self, error: Exception) -> None:
        raise SystemExit(f"{self.name} cannot go on: {error}")

    def _end(self, held: Held) -> None:
        lease = held.lease
        told = None, None, None, None, None, ()
        body = Ended(lease.run_id, "succeeded", *told)
        command = Command("", lease.tenant_id, lease.job_id, lease.epoch, 0, body)

        def done(_: Exception | None) -> None:
            self.held_leases.drop(held)
            self.shop.ended += 1

        self.held_leases.vacate(held)
        self.link.post(lease.home_partition, command, lambda: math.inf, done)
        self.link.tell()


class Shop:
    """Jobs, the process that owns them and workers on one clock."""

    def __init__(self, tenants: int) -> None:
        self.topology: Topology = load()
        stages = [dispatcher.stage(self.topology), scheduler.stage(self.topology)]
        self.driver = TopologyTestDriver(stages, self.topology, open_link=self._opened)
        self.ended = self.declined = 0
        chance = random.Random(11)
        self.seconds = {f"job_{number:03}": chance.uniform(1, 9) for number in range(JOBS)}
        self.tenant_of = {job_id: f"tnt_{n % tenants}" for n, job_id in enumerate(self.seconds)}
        self.driver.advance(TICK)
        self.workers = [SimulatedWorker(self, number) for number in range(WORKERS)]

    def run(self) -> tuple[float, float, int]:
        """Seconds to the last end, the ideal, and leases that found no slot."""
        for _ in range(round(2 / TICK)):
            self._tick()
        self._submit()
        began = self.now()
        while self.ended < JOBS:
            if self.now() - began > _MOST_SECONDS:
                raise SystemExit(f"only {self.ended} of {JOBS} jobs ended")
            self._tick()
        return self.now() - began, ideal(list(self.seconds.values())), self.declined

    def now(self) -> float:
        return self.driver.now / 1000

    def _opened(self, workers: Workers) -> StageLink:
        terms = Terms(
            "bench", self.topology.partitions, frozenset({"default"}), self.topology.leases
        )
        self.owner = Owner(workers, terms, self.now)
        return self.owner

    def _tick(self) -> None:
        for worker in self.workers:
            worker.act()
            worker.write()
        self.owner.check()
        self.driver.advance(TICK)
        for worker in self.workers:
            worker.read()

    def _submit(self) -> None:
        with self.driver.together():
            for job_id, tenant in self.tenant_of.items():
                body = Submit("sleep", "{}", None, None, None, None, None, None, b"", None)
                one = Command(new_id("cmd"), tenant, job_id, 0, self.driver.now, body)
                partition = partition_for(tenant, self.topology.partitions)
                self.driver.pipe("jobs.commands", b"", COMMAND.encode(one), partition=partition)


def ideal(seconds: list[float]) -> float:
    """When the last job ends if each starts on the slot that is free first."""
    slots = [0.0] * (WORKERS * SLOTS)
    for each in seconds:
        heapreplace(slots, slots[0] + each)
    return max(slots)

"""How close credits come to the ideal schedule, on the virtual clock.

200 jobs of one to nine seconds come at once, of 20 tenants over four partitions, to four workers
of eight slots. Dispatcher, leases, credits and heartbeats are the product's own; only what handlers
do is a sleep. The ideal is the time that a machine of 32 slots would take which knows no
partitions, by list scheduling in the order of the jobs' arrival. In the second figure all jobs are
of one tenant, and so of one partition, to which every worker has to move its credits.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from concurrent.futures import Future
from heapq import heapreplace

from harness import Result

from streams import dispatcher, scheduler
from streams.runtime.driver import TopologyTestDriver
from streams.serde.codec import COMMAND, REPLY
from streams.serde.ids import new_id, partition_for
from streams.serde.records import Command, Declined, Ended, Handler, PayloadRef, Submit
from streams.topology.load import load
from streams.topology.model import Topology
from streams.worker.lease.heartbeater import Heartbeater, Identity
from streams.worker.lease.held_leases import Held, HeldLeases
from streams.worker.lease.notices import Notices
from streams.worker.lease.receiver import LeaseReceiver
from streams.worker.transport.contract import Done, Inbox, Incoming
from streams.worker.transport.retrying_sender import RetryingSender, command

WORKERS, SLOTS, JOBS, TENANTS = 4, 8, 200, 20
KEY = b"k" * 32
WORK, REPLIES = "jobs.work.default", "jobs.replies"
TICK = 0.05
_MOST_SECONDS = 600.0


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
    """The product's leases, credits and heartbeats; runs are moments at which they end."""

    def __init__(self, shop: Shop, number: int) -> None:
        self.shop = shop
        self.number = number
        topology = shop.topology
        self.held_leases = HeldLeases(SLOTS, 5, topology.partitions, shop.now)
        self.id = f"default-w{number}/{new_id('boot')}"
        identity = Identity(self.id, "default", (Handler("sleep", 3, (), 60),))
        wire = Wire(shop)
        self.heartbeater = Heartbeater(
            identity, self.held_leases, wire, topology.partitions, topology.leases, shop.now
        )
        self.notices = Notices(self.heartbeater, self.held_leases, shop.now).by_kind()
        self.receiver = LeaseReceiver(
            (KEY,),
            topology.partitions,
            self.held_leases,
            self.heartbeater,
            RetryingSender(wire, shop.now),
            self._started,
            shop.now,
        )
        self._runs: list[tuple[float, Held]] = []
        self.heartbeater.announce(number)

    def act(self) -> None:
        """End what has slept enough."""
        for due, held in [run for run in self._runs if run[0] <= self.shop.now()]:
            self._runs.remove((due, held))
            self.held_leases.vacate(held)
            with self.held_leases.lock:
                free, received = self.held_leases.tell(held.lease.home_partition)
                body = Ended(
                    held.lease.worker_id,
                    held.lease.run_id,
                    free,
                    "succeeded",
                    None,
                    None,
                    None,
                    received=received,
                    traceback=None,
                )
                letter = command(held.lease, body)
            self.shop.sent.append((letter.partition, letter.value))
            self.held_leases.drop(held)
            self.heartbeater.tell()

    def _started(self, held: Held) -> None:
        self._runs.append((self.shop.now() + self.shop.seconds[held.lease.job_id], held))


class Wire:
    """`Transport` to the shop's topics; what is sent is acknowledged at once."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    def send(self, topic: str, key: bytes, value: bytes, *, partition: int, done: Done) -> None:
        self._shop.sent.append((partition, value))
        done(None)

    def start(self, inbox: Inbox) -> None:
        """Nothing is read here."""

    def close(self) -> None:
        """Nothing is held open."""

    def fetch(self, ref: PayloadRef) -> Future[list[bytes]]:
        raise AssertionError("no job of the schedule has a body")


class Shop:
    """Jobs, dispatchers and workers on one clock."""

    def __init__(self, tenants: int) -> None:
        self.topology: Topology = load()
        stages = [dispatcher.stage(self.topology, KEY), scheduler.stage(self.topology)]
        self.driver = TopologyTestDriver(stages, self.topology)
        self.sent: deque[tuple[int, bytes]] = deque()
        self.ended = self.declined = 0
        self._read: Counter[tuple[str, int]] = Counter()
        chance = random.Random(11)
        self.seconds = {f"job_{number:03}": chance.uniform(1, 9) for number in range(JOBS)}
        self.tenant_of = {job_id: f"tnt_{n % tenants}" for n, job_id in enumerate(self.seconds)}
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

    def _tick(self) -> None:
        for worker in self.workers:
            worker.act()
        if round(self.now() / TICK) % round(5 / TICK) == 0:
            for worker in self.workers:
                worker.heartbeater.beat()
        with self.driver.together():
            while self.sent:
                partition, value = self.sent.popleft()
                self._count(value)
                self.driver.pipe("jobs.commands", b"", value, partition=partition)
        self.driver.advance(TICK)
        for worker in self.workers:
            for value in self._news(WORK, worker.number):
                worker.receiver.receive(Incoming(WORK, worker.number, 0, b"", value))
            for value in self._news(REPLIES, worker.number):
                reply = REPLY.decode(value)
                if reply.kind in worker.notices and reply.worker_id in ("", worker.id):
                    worker.notices[reply.kind](reply)

    def _count(self, value: bytes) -> None:
        body = COMMAND.decode(value).body
        self.ended += isinstance(body, Ended)
        self.declined += isinstance(body, Declined) and body.reason == "full"

    def _news(self, topic: str, partition: int) -> list[bytes]:
        records = [r for r in self.driver.output(topic) if r.partition == partition]
        new = records[self._read[topic, partition] :]
        self._read[topic, partition] = len(records)
        return [record.value or b"" for record in new]

    def _submit(self) -> None:
        for job_id, tenant in self.tenant_of.items():
            body = Submit("sleep", "{}", None, None, None, None, None, None, b"", None)
            one = Command(new_id("cmd"), tenant, job_id, 0, self.driver.now, body)
            partition = partition_for(tenant, self.topology.partitions)
            self.sent.append((partition, COMMAND.encode(one)))


def ideal(seconds: list[float]) -> float:
    """When the last job ends if each starts on the slot that is free first."""
    slots = [0.0] * (WORKERS * SLOTS)
    for each in seconds:
        heapreplace(slots, slots[0] + each)
    return max(slots)

"""A dispatcher of several partitions in memory; its shared limits are checked at each commit."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from streams import dispatcher, scheduler
from streams.dispatcher.live_index import entries
from streams.runtime.driver import TopologyTestDriver
from streams.runtime.processor import Record
from streams.serde.codec import LIMIT_CLAIM
from streams.serde.ids import owner_of
from streams.serde.job_states import LEASED
from streams.serde.records import CommandBody, Heartbeat, LimitClaim
from streams.state.store import KeyValueStore
from streams.topology.limits import Limit
from support.dispatching import Desk, ScriptedWorker, topology
from support.permit_checks import overruns

NOTHING = LIMIT_CLAIM.encode(LimitClaim("no such limit", "", 0, 0, 0, 0, 0, 0))
"""A claim that nobody looks at."""


class Broken(AssertionError):
    """A guarantee of shared limits does not hold."""


class Place(Desk):
    """One partition of a floor, as a desk."""

    def __init__(self, floor: Floor, partition: int) -> None:
        self.driver = floor.driver
        self.topology = floor.topology
        self.partition = partition
        self._numbers = itertools.count()
        own = frozenset({self.tenant_id})
        self.worker = ScriptedWorker(self, f"w{partition}/b1", slots=100, tenants=own)

    def order(
        self,
        worker_id: str,
        body: CommandBody,
        job_id: str = "",
        epoch: int = 0,
        tenant: str = "acme",
        *,
        at: int = 0,
    ) -> None:
        """A command of the worker that has the job; a heartbeat is one of each that has some.

        The partitions share their workers.
        """
        if isinstance(body, Heartbeat):
            holders = {each.job_id: self.taker(each.job_id) for each in body.leases}
            for holder in {worker_id, *holders.values()}:
                own = tuple(each for each in body.leases if holders[each.job_id] == holder)
                super().order(holder, dataclasses.replace(body, leases=own), tenant=tenant, at=at)
            return
        holder = next((to for to, x in self.leased() if x.run_id == _run_of(body)), worker_id)
        super().order(holder, body, job_id, epoch, tenant, at=at)

    @property
    def tenant_id(self) -> str:
        return f"tenant{self.partition}"

    def running(self) -> list[str]:
        """The jobs of this partition that run."""
        found = entries(self.driver.store("dispatcher", "jobs", self.partition))
        return [job_id for job_id, live in found if live.status in LEASED]

    def submit_some(self, count: int, type_: str = "draft_reply", **fields: Any) -> list[str]:
        """New jobs; their ids."""
        names = [f"job_{self.partition}_{next(self._numbers)}" for _ in range(count)]
        for name in names:
            self.submit(name, type_, tenant=self.tenant_id, **fields)
        return names

    def beat(self) -> None:
        """The worker says that it is there, and what it has."""
        known = {lease.job_id: lease for lease in self.leases()}
        self.worker.heartbeat(*(known[each] for each in self.running() if each in known))

    def end(self, job_id: str) -> None:
        lease = self.lease(job_id)
        self.worker.end(lease, "succeeded", free=100)

    def end_all(self, most: int = 1_000) -> int:
        """End jobs that run and were sent to a worker; how many."""
        sent = {lease.job_id for lease in self.leases()}
        ended = [job_id for job_id in self.running() if job_id in sent][:most]
        for job_id in ended:
            self.end(job_id)
        return len(ended)


def _run_of(body: CommandBody) -> str | None:
    return getattr(body, "run_id", None)


class Floor:
    """Partitions of a dispatcher, each with a worker of its own."""

    def __init__(self, *limits: Limit, partitions: int = 3) -> None:
        self.topology = topology(*limits, partitions=partitions)
        stages = [dispatcher.stage(self.topology), scheduler.stage(self.topology)]
        self.driver = TopologyTestDriver(stages, self.topology, partitions=partitions)
        self.lowered = False
        """Whether a cap was lowered, or made a shared one, and what was there may not fit yet."""
        self.driver.advance(0.2)
        self.places = [Place(self, partition) for partition in range(partitions)]
        self._watch()

    def beat(self) -> None:
        for place in self.places:
            place.beat()

    def running(self) -> Counter[int]:
        """How many jobs run, by partition."""
        return Counter({place.partition: len(place.running()) for place in self.places})

    def pass_time(self, seconds: float) -> None:
        """Let time pass while all workers are there."""
        while seconds > 0:
            self.beat()
            self.driver.advance(min(seconds, 2))
            seconds -= 2

    def deploy(self, *limits: Limit, keep_state: bool = True) -> None:
        """The dispatcher starts anew with other limits."""
        self.topology = dataclasses.replace(self.topology, limits=limits)
        run = self.driver.run_of("dispatcher")
        run.stage = dispatcher.stage(self.topology)
        self.driver.restart("dispatcher", keep_state=keep_state)
        self._watch()
        self.driver.advance(0.3)

    def restart(self, *, keep_state: bool = True) -> None:
        self.driver.restart("dispatcher", keep_state=keep_state)

    def store(self, partition: int) -> KeyValueStore:
        return self.driver.store("dispatcher", "parts", partition)

    def rows(self) -> list[bytes]:
        """The rows of permits that are left in all partitions."""
        found = []
        for place in self.places:
            for prefix, end in ((b"h", b"i"), (b"t", b"u")):
                found += [key for key, _ in self.store(place.partition).range(prefix, end)]
        return found

    def again(self, topic: str) -> None:
        """Every record of a topic is read once more."""
        for record in self.driver.output(topic):
            self.driver.pipe(topic, record.key, record.value, partition=record.partition)

    @contextmanager
    def without(self, topic: str, partition: int | None = None) -> Iterator[None]:
        """Nobody reads a topic, or one partition of it, meanwhile."""
        run = self.driver.run_of("dispatcher")
        whole = run.unprocessed

        def others() -> list[Record]:
            missing = topic, partition
            return [r for r in whole() if missing not in ((r.topic, r.partition), (r.topic, None))]

        run.unprocessed = others  # type: ignore[method-assign]
        yield
        run.unprocessed = whole  # type: ignore[method-assign]
        self.driver._flow()

    @contextmanager
    def losing(self, topic: str) -> Iterator[None]:
        """What is sent on a topic meanwhile is lost before anybody reads it."""
        logs = self.driver._broker.records
        before = {place: len(log) for place, log in logs.items()}
        with self.without(topic):
            yield
            for place, log in logs.items():
                if place[0] == topic:
                    new = range(before.get(place, 0), len(log))
                    for offset in new:
                        log[offset] = log[offset]._replace(value=NOTHING)

    def owner(self, limit: str, key: str = "") -> int:
        return owner_of(limit, key, len(self.places))

    def check(self) -> None:
        """Hold what is committed against the guarantees.

        Raises:
            Broken: one does not hold.
        """
        numbers = range(self.topology.partitions)
        parts = {number: self.store(number) for number in numbers}
        jobs = {number: self.driver.store("dispatcher", "jobs", number) for number in numbers}
        for broken in overruns(parts, jobs, self.topology.limits, fits=not self.lowered):
            raise Broken(broken)

    def _watch(self) -> None:
        """Check after each commit of the dispatcher."""
        commits = self.driver.run_of("dispatcher").commits
        commit = type(commits).commit

        def watched(tasks: Any, *, alone: bool = False) -> None:
            commit(commits, tasks, alone=alone)
            self.check()

        commits.commit = watched  # type: ignore[method-assign]

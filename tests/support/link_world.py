"""Owners and workers of one world, between which frames are delayed, lost and sent again.

The real cores of both ends meet: `streams.link.owner` under a stage that commits into one log, and
`streams.worker.link` under runs that claim, tell outcomes and end. Partitions move, commits fail or
leave a doubt, and either end freezes. What must hold is asserted where it happens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from support.link_world_wire import Wire

if TYPE_CHECKING:
    from support.link_world_owner import OwnerProcess
    from support.link_world_worker import WorkerProcess

PARTITIONS = 3
_ACTS = {
    "up": 30.0,
    "down": 30.0,
    "step": 20.0,
    "work": 25.0,
    "tick": 8.0,
    "follow": 4.0,
    "tell": 6.0,
    "dial": 8.0,
    "cut": 1.5,
    "move": 0.5,
    "freeze": 0.3,
    "crash": 0.15,
    "kill": 0.1,
}
"""What may happen, and how often."""


@dataclass
class Job:
    """A job as the last commit left it. `log` has what its runs did: each tag once, in order.

    It is `confirmed` once its worker spoke for the lease.
    """

    job_id: str
    status: str = "ready"
    epoch: int = 0
    worker_id: str = ""
    confirmed: bool = False
    log: list[str] = field(default_factory=list)


class Committed:
    """The state of all partitions, and which process each belongs to; `tags` are all commands."""

    def __init__(self, jobs: int) -> None:
        self.jobs: list[dict[str, Job]] = [{} for _ in range(PARTITIONS)]
        for number in range(jobs):
            job_id = f"job_{number}"
            self.jobs[number % PARTITIONS][job_id] = Job(job_id)
        self.tags: set[str] = set()
        self.generation = [0] * PARTITIONS
        self.owner: list[OwnerProcess | None] = [None] * PARTITIONS

    def move(self, partition: int, owner: OwnerProcess) -> None:
        """Give a partition to a process, which does not know of it yet."""
        self.generation[partition] += 1
        self.owner[partition] = owner

    @property
    def is_done(self) -> bool:
        return all(job.status == "done" for jobs in self.jobs for job in jobs.values())


class World:
    """All processes, and one clock."""

    def __init__(self, seed: int, owners: int = 2, workers: int = 2, jobs: int = 12) -> None:
        from support.link_world_owner import OwnerProcess
        from support.link_world_worker import WorkerProcess

        self.rng = Random(seed)
        self.now = 1_000.0
        self.committed = Committed(jobs)
        self.owners = [OwnerProcess(self, f"owner-{n}") for n in range(owners)]
        self.workers = [WorkerProcess(self, f"w{n}") for n in range(workers)]
        self.wires: list[Wire] = []
        self._processes: list[OwnerProcess | WorkerProcess] = [*self.workers, *self.owners]
        for partition in range(PARTITIONS):
            self.committed.move(partition, self.rng.choice(self.owners))

    def run(self, steps: int) -> None:
        """Let anything happen, then only good things; all jobs are done in the end."""
        for _ in range(steps):
            self._act()
            self._check()
            self.now += self.rng.choice((0.0, 0.01, 0.1, 0.3))
        for _ in range(2_000):
            self._settle()
            if self.committed.is_done and all(worker.rests for worker in self.workers):
                break
        for _ in range(60):  # shares are levelled, and beats told
            self._settle()
        assert self.committed.is_done, "a job is lost"
        for worker in self.workers:
            worker.check_rest([wire for wire in self.wires if wire.worker is worker])

    def _check(self) -> None:
        for owner in self.owners:
            owner.check_terms()
        for wire in self.wires:
            wire.check_counted()

    def _act(self) -> None:
        kind = self.rng.choices(tuple(_ACTS), tuple(_ACTS.values()))[0]
        getattr(self, f"_{kind}")()

    def _up(self) -> None:
        if wire := self._wire():
            wire.deliver_up(self.rng.choice((1, 1, 3, 100)))

    def _down(self) -> None:
        if wire := self._wire():
            wire.deliver_down()

    def _wire(self) -> Wire | None:
        awake = [w for w in self.wires if w.owner.is_awake and w.worker.is_awake]
        return self.rng.choice(awake) if awake else None

    def _step(self) -> None:
        owner = self.rng.choice(self.owners)
        if owner.is_awake:
            owner.step(
                self.rng.choices(("done", "aborted", "unknown", "doubtful"), (12, 4, 1, 1))[0]
            )

    def _follow(self) -> None:
        owner = self.rng.choice(self.owners)
        if owner.is_awake:
            owner.follow()

    def _work(self) -> None:
        worker = self.rng.choice(self.workers)
        if worker.is_awake:
            worker.act()

    def _tick(self) -> None:
        for each in self._processes:
            if each.is_awake:
                each.tick()

    def _tell(self) -> None:
        for wire in self.wires:
            wire.tell(self.rng)
        self.wires = [w for w in self.wires if not (w.worker_knows and w.owner_knows)]

    def _dial(self) -> None:
        worker, owner = self.rng.choice(self.workers), self.rng.choice(self.owners)
        self._connect(worker, owner)

    def _connect(self, worker: WorkerProcess, owner: OwnerProcess) -> None:
        met = any(
            w.worker is worker and w.owner is owner and not w.worker_knows for w in self.wires
        )
        if not met and worker.is_awake and owner.is_awake:
            self.wires.append(Wire(worker, owner))

    def _cut(self) -> None:
        """Break a connection; perhaps its worker knows at once, and dials again."""
        if not self.wires:
            return
        wire = self.rng.choice(self.wires)
        wire.cut()
        if self.rng.random() < 0.5 and wire.worker.is_awake and not wire.worker_knows:
            wire.worker_knows = True
            wire.worker.link.closed(wire, "cut")
            self._connect(wire.worker, wire.owner)
            self.wires[-1].deliver_up(1)

    def _move(self) -> None:
        partition = self.rng.randrange(PARTITIONS)
        self.committed.move(partition, self.rng.choice(self.owners))

    def _freeze(self) -> None:
        frozen = self.rng.choice(self._processes)
        frozen.frozen_until = self.now + self.rng.choice((3.0, 15.0, 40.0))

    def _crash(self) -> None:
        """An owner's process ends; another one takes its place."""
        owner = self.rng.choice(self.owners)
        for wire in self.wires:
            if wire.owner is owner:
                wire.cut()
                wire.owner_knows = True
        owner.begin()
        for partition in range(PARTITIONS):
            if self.committed.owner[partition] is owner:
                self.committed.move(partition, self.rng.choice(self.owners))

    def _kill(self) -> None:
        """A worker's process ends; another one of its name begins."""
        worker = self.rng.choice(self.workers)
        for wire in self.wires:
            if wire.worker is worker:
                wire.cut()
                wire.worker_knows = True
        worker.begin()

    def _settle(self) -> None:
        self.now += 0.25
        for each in self._processes:
            each.frozen_until = 0.0
        for owner in self.owners:
            owner.follow()
            for worker in self.workers:
                self._connect(worker, owner)
        for _ in range(3):
            for wire in list(self.wires):
                wire.deliver_up(1_000)
                wire.deliver_down()
            for owner in self.owners * 2:
                owner.step("done")
            for worker in self.workers:
                for _ in range(4):
                    worker.act()
        self._tick()
        self._tell()

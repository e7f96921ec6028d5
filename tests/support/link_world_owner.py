"""The process of an owner in `link_world`: its core of the link under a stage that leases jobs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streams.link.owner import Owner
from streams.link.terms import Terms
from streams.runtime.link import Rights
from streams.runtime.processor import Record
from streams.serde.link import commands
from streams.serde.link.messages import Answer, Leased, Message, Wanted
from streams.serde.records import (
    Claim,
    Command,
    Declined,
    Ended,
    Handler,
    Heartbeat,
    Outcome,
    Reply,
)
from streams.topology.model import LeasePolicy
from support.leases import lease_to
from support.linked_workers import to

if TYPE_CHECKING:
    from support.link_world import Job, World

POLICY = LeasePolicy()


@dataclass(eq=False)
class View:
    """What a stage knows of a connected worker."""

    limit: int = 0
    sent: int = 0
    beat: int = 0
    read_at: float = 0.0
    asked_at: float = 0.0


class OwnerProcess:
    """One process that owns partitions; `tasks` are those that it believes to own.

    `via` is the connection over which it sent the lease of a job.
    """

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.frozen_until = 0.0
        self._world = world
        self.begin()

    def begin(self) -> None:
        """Begin as a new process."""
        self.frozen_until = 0.0
        self.views: dict[str, View] = {}
        self.tasks: dict[int, int] = {}  # the generation of each
        self.terms: dict[str, float] = {}
        self.via: dict[str, View] = {}
        self._under_way: tuple[Step, Sequence[Record]] | None = None
        from support.link_world import PARTITIONS

        terms = Terms(self.name, PARTITIONS, frozenset({"default"}), POLICY)
        self.core = Owner(self, terms, lambda: self._world.now)

    @property
    def is_awake(self) -> bool:
        return self._world.now >= self.frozen_until

    # The stage's `Workers`.

    def connected(
        self, worker_id: str, pool: str, handlers: Sequence[Handler], rights: Rights
    ) -> None:
        self.views[worker_id] = View()

    def heard(self, worker_id: str, beat: int, limit: int, draining: bool, now: float) -> None:
        view = self.views[worker_id]
        view.beat, view.limit, view.read_at = beat, limit, now

    def gone(self, worker_id: str) -> None:
        del self.views[worker_id]

    # The loop.

    def check_terms(self) -> None:
        """No worker counts on a lease for longer than this process does."""
        committed = self._world.committed
        for partition, generation in self.tasks.items():
            if committed.generation[partition] == generation:
                for job in committed.jobs[partition].values():
                    if job.status == "leased":
                        for worker in self._world.workers:
                            worker.check_term(job.job_id, job.epoch, self.terms[job.job_id])

    def tick(self) -> None:
        self.core.check()

    def follow(self) -> None:
        """Follow the assignment: close what is gone, then restore what is new."""
        if self._under_way is not None:
            return
        committed = self._world.committed
        mine = {p: g for p, g in enumerate(committed.generation) if committed.owner[p] is self}
        kept = {p: g for p, g in self.tasks.items() if mine.get(p) == g}
        if kept != self.tasks:
            self.tasks = kept
            self.core.owned(kept.keys())
        if mine != kept:
            self._restore(mine)

    def _restore(self, partitions: dict[int, int]) -> None:
        for partition in partitions.keys() - self.tasks.keys():
            for job in self._world.committed.jobs[partition].values():
                self.terms[job.job_id] = self._world.now + POLICY.term_seconds
                self.via.pop(job.job_id, None)
        self.tasks = dict(partitions)
        self.core.owned(self.tasks.keys())

    def step(self, outcome: str) -> None:
        """Begin a step, or commit the one under way: meanwhile workers go on."""
        if self._under_way is None:
            self._begin_step()
            return
        step, taken = self._under_way
        self._under_way = None
        committed = self._world.committed
        if any(committed.generation[p] != g for p, g in self.tasks.items()):
            outcome = self._world.rng.choice(("aborted", "unknown"))
        self.end(step, taken, outcome)

    def _begin_step(self) -> None:
        taken = self.core.take(math.ceil(self._world.now * 1000))
        step = Step(self, self._world)
        for record in taken:
            step.process(record)
        step.lease()
        if taken or step.outputs:
            self._under_way = step, taken

    def end(self, step: Step, taken: Sequence[Record], outcome: str) -> None:
        """Commit a step, or not."""
        if outcome in ("done", "doubtful"):
            step.apply()
        if outcome == "done":
            step.remember()
            self.core.committed(taken, step.outputs)
        elif outcome == "aborted":
            self.core.again()
        else:
            self.tasks = {}
            self.core.owned(())


class Step:
    """What one step of an owner changes, until it is committed."""

    def __init__(self, owner: OwnerProcess, world: World) -> None:
        self.outputs: list[Record] = []
        self._owner = owner
        self._world = world
        self._jobs = deepcopy([world.committed.jobs[p] for p in sorted(owner.tasks)])
        self._places = sorted(owner.tasks)
        self._terms, self._via = dict(owner.terms), dict(owner.via)
        self._tags: set[str] = set()
        self._sent: list[View] = []

    def process(self, record: Record) -> None:
        """Apply the command of a record."""
        command = commands.command(record.value, record.timestamp)
        sender, body = (record.key or b"").decode(), command.body
        if isinstance(body, Heartbeat):
            for listed in body.leases:
                job = self._living(record.partition, listed.job_id, listed.epoch, sender)
                if job is not None:
                    self._terms[job.job_id] = record.timestamp / 1000 + POLICY.term_seconds
                    job.confirmed = True
            self._take_back(record.partition, sender, body)
            return
        tag = tag_of(command)
        self._tags.add(tag)
        job = self._living(record.partition, command.job_id, command.epoch, sender)
        if isinstance(body, Claim):
            whose = command.job_id, command.epoch, body.claim_id
            reply = Reply(*whose, "lost") if job is None else Reply(*whose, "granted")
            self._say(sender, Answer(record.partition, reply))
        if job is not None and tag not in job.log:
            job.confirmed = True
            job.log.append(tag)
            if isinstance(body, Ended | Declined):
                job.status = "done" if isinstance(body, Ended) else "ready"

    def _take_back(self, partition: int, sender: str, body: Heartbeat) -> None:
        """Take back what was sent to a worker over another connection, and never arrived."""
        listed = {(each.job_id, each.epoch) for each in body.leases}
        present = self._owner.views.get(sender)
        for job in self._jobs[self._places.index(partition)].values():
            theirs = (job.status, job.worker_id, job.confirmed) == ("leased", sender, False)
            missed = (job.job_id, job.epoch) not in listed
            if theirs and missed and present not in (None, self._via.get(job.job_id)):
                job.status = "ready"

    def lease(self) -> None:
        """Take back the jobs whose terms are over, and lease what is ready."""
        for partition, jobs in zip(self._places, self._jobs, strict=True):
            for job in jobs.values():
                if job.status == "leased" and self._world.now >= self._terms[job.job_id]:
                    job.status = "ready"
                if job.status == "ready":
                    self._lease(partition, job)

    def _lease(self, partition: int, job: Job) -> None:
        free = [
            (who, view)
            for who, view in self._owner.views.items()
            if view.sent + self._sent.count(view) < view.limit
            and self._world.now < view.read_at + POLICY.term_seconds / 2
        ]
        if not free:
            self._want()
            return
        who, view = self._world.rng.choice(free)
        self._sent.append(view)
        job.status, job.worker_id, job.epoch = "leased", who, job.epoch + 1
        job.confirmed, self._via[job.job_id] = False, view
        self._terms[job.job_id] = view.read_at + POLICY.term_seconds
        run_id = f"{job.job_id}.{job.epoch}"
        lease = replace(lease_to(partition), job_id=job.job_id, epoch=job.epoch, run_id=run_id)
        self._say(who, Leased(partition, view.beat, lease))

    def _want(self) -> None:
        """Ask for slots, each second."""
        for who, view in self._owner.views.items():
            if view.sent >= view.limit and self._world.now >= view.asked_at + 1:
                view.asked_at = self._world.now
                self._say(who, Wanted())

    def apply(self) -> None:
        """Make it true for all processes."""
        committed = self._world.committed
        for partition, jobs in zip(self._places, self._jobs, strict=True):
            for job_id, job in jobs.items():
                if job.epoch != committed.jobs[partition][job_id].epoch:
                    for worker in self._world.workers:
                        worker.check_over(job_id, job.epoch)
            committed.jobs[partition] = jobs
        committed.tags |= self._tags

    def remember(self) -> None:
        """Note in the process what it knows to be committed."""
        self._owner.terms, self._owner.via = self._terms, self._via
        for view in self._sent:
            view.sent += 1

    def _living(self, partition: int, job_id: str, epoch: int, sender: str) -> Job | None:
        assert partition in self._places, "it takes commands of no other partition"
        job = self._jobs[self._places.index(partition)][job_id]
        whose = job.status, job.epoch, job.worker_id
        return job if whose == ("leased", epoch, sender) else None

    def _say(self, worker_id: str, message: Message) -> None:
        self.outputs.append(to(worker_id, message))


def tag_of(command: Command) -> str:
    """The name of a command in logs: the same in all its copies."""
    body = command.body
    if isinstance(body, Claim | Outcome):
        return f"{type(body).__name__} {body.claim_id}"
    return f"{type(body).__name__} {command.job_id}.{command.epoch}"

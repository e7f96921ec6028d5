"""A worker without an event loop: the product's own leases, credits and heartbeats, in ticks.

Only its runs (`run_model.py`) and its producer are models. Its process may be killed, cut off from
Kafka, or slow to reach it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from support.tree_script import TreeScript

from simulation.chance import Dice
from simulation.handlers import handler, owner_of
from simulation.outbox_model import Acked, Deadline, Letter, OutboxModel
from simulation.outside import Call, Outside, Violation
from simulation.run_model import MARGIN, RunModel
from streams.serde.codec import REPLY
from streams.serde.records import CommandBody, Lease
from streams.topology.model import LeasePolicy
from streams.worker.lease.heartbeater import Heartbeater, Identity
from streams.worker.lease.held_leases import Held, HeldLeases
from streams.worker.lease.notices import Notices
from streams.worker.lease.receiver import LeaseReceiver
from streams.worker.transport.contract import Incoming
from streams.worker.transport.retrying_sender import RetryingSender, command

CLUSTER_KEY = b"k" * 32
DRAIN = 20.0


class Surroundings(Protocol):
    """What a worker needs of the world."""

    dice: Dice
    outside: Outside
    partitions: int

    @property
    def seconds(self) -> float: ...

    @property
    def true_ms(self) -> int: ...

    def send(self, letter: Letter) -> None: ...

    def tell(self, *what: object) -> None: ...

    def taken(self, lease: Lease, version: int) -> None: ...

    def lost(self, lease: Lease) -> None: ...

    def spoke(self, lease: Lease, status: str) -> None: ...

    def works(self, lease: Lease, function: str) -> None: ...

    def diverges(self, lease: Lease) -> None: ...

    def calls(self, lease: Lease, call: Call) -> None: ...

    @property
    def has_models(self) -> bool: ...

    def asks(self, lease: Lease, model: str) -> None: ...

    def gathered(self, lease: Lease, told: list[list[str | None]], script: TreeScript) -> None: ...

    def killed_by(self, worker: WorkerModel, lease: Lease) -> None: ...


class WorkerModel:
    """One process of an instance."""

    def __init__(
        self,
        world: Surroundings,
        instance: str,
        boot: str,
        pool: str,
        slots: int,
        types: tuple[str, ...],
        work_partition: int,
        version: int,
    ) -> None:
        self.id = f"{pool}-{instance}/{boot}"
        self.instance, self.pool, self.version = instance, pool, version
        self.world, self.dice, self.outside = world, world.dice, world.outside
        self.alive = True
        self.cut_until = self.lag_until = 0.0
        self.runs: dict[tuple[str, int], RunModel] = {}
        self.sender = OutboxModel(world.send, self._now, self._connected)
        policy, partitions = LeasePolicy(), world.partitions
        self.held_leases = HeldLeases(slots, MARGIN, partitions, self._now)
        identity = Identity(self.id, pool, tuple(handler(type_, version) for type_ in types))
        self.heartbeater = Heartbeater(
            identity, self.held_leases, self.sender, partitions, policy, self._now
        )
        self._notices = Notices(self.heartbeater, self.held_leases, self._now).by_kind()
        self._receiver = LeaseReceiver(
            (CLUSTER_KEY,),
            partitions,
            self.held_leases,
            self.heartbeater,
            RetryingSender(self.sender, self._now),
            self._taken,
            self._now,
        )
        self._early: OrderedDict[tuple[str, int], tuple[str, str]] = OrderedDict()
        self._every = policy.heartbeat_seconds
        self._beat_at = self.seconds + self._every
        self._drained_at = 0.0
        self.heartbeater.announce(work_partition)

    @property
    def seconds(self) -> float:
        return self.world.seconds

    @property
    def true_ms(self) -> int:
        return self.world.true_ms

    @property
    def leaving(self) -> bool:
        return self.held_leases.draining

    @property
    def work_partition(self) -> int:
        return self.heartbeater.work_partition or 0

    @property
    def reads(self) -> bool:
        return self.alive and self.seconds >= self.cut_until

    def kill(self) -> None:
        """It says nothing more; of what was on its way a part arrives."""
        self.alive = False
        arrived = self.dice.of("kill", self.id).randint(0, len(self.sender))
        self.sender.die(arrived)
        for run in self.runs.values():
            self.world.lost(run.lease)
        self.runs.clear()

    def stop(self) -> None:
        """SIGTERM: take nothing more, let what runs end."""
        if self.alive and not self.leaving:
            self.held_leases.draining = True
            self._drained_at = self.seconds + DRAIN
            self.heartbeater.tell()

    def move(self, work_partition: int) -> None:
        """The pool's group gives it another work partition."""
        self.heartbeater.announce(work_partition)

    def act(self) -> None:
        """Go on with every run, beat if it is time, send what can be sent."""
        self.sender.flush()
        self._begin_alone()
        for run in list(self.runs.values()):
            run.advance()
            if not self.alive:
                return
            if run.over:
                del self.runs[run.held.id]
                self.held_leases.drop(run.held)
                self.heartbeater.tell()
        if self.seconds >= self._beat_at:
            self._beat_at = self.seconds + self._every
            self.heartbeater.beat()
        if self.leaving:
            self._drain()
        self.sender.flush()

    def replied(self, value: bytes | None) -> None:
        """One record of its partition of `jobs.replies`."""
        reply = REPLY.decode(value)
        if reply.worker_id not in ("", self.id):
            return
        self.tell("reads", reply.kind, reply.job_id, reply.message)
        notice = self._notices.get(reply.kind)
        if notice is not None:
            notice(reply)
        elif reply.claim_id:
            for run in self.runs.values():
                run.answered(reply)
        elif reply.kind in ("cancel", "lost"):
            verdict = "cancelled" if reply.kind == "cancel" else "lost"
            run_of = self.runs.get((reply.job_id, reply.epoch))
            if run_of is None:
                self._early[reply.job_id, reply.epoch] = (reply.run_id, verdict)
            elif reply.run_id in ("", run_of.held.lease.run_id):
                run_of.stop(verdict, reply.message)

    def leased(self, value: bytes | None, partition: int, offset: int) -> None:
        """One record of its work partition."""
        before = len(self.runs)
        self._receiver.receive(Incoming(f"jobs.work.{self.pool}", partition, offset, b"", value))
        if len(self.runs) == before:
            self.tell("does not take the lease at", offset)

    def tell(self, *what: object) -> None:
        self.world.tell(self.instance, *what)

    def lost(self, lease: Lease) -> None:
        self.world.lost(lease)

    def killed_by(self, lease: Lease) -> None:
        self.world.killed_by(self, lease)

    def post(
        self, lease: Lease, body: CommandBody, until: Deadline, acked: Acked = lambda _: None
    ) -> None:
        """Say something about a lease."""
        letter = command(lease, body)
        self.sender.post(Letter(letter.partition, letter.key, letter.value, until, acked))

    def _taken(self, held: Held) -> None:
        lease = held.lease
        if owner_of(lease) != lease.tenant_id:
            raise Violation("foreign_tenant", f"{lease.job_id}: {lease.tenant_id}, {lease}")
        run = RunModel(self, held)
        self.runs[held.id] = run
        self.world.taken(lease, self.version)
        self.tell("takes", lease.job_id, lease.epoch, "alone" if lease.alone else "")
        run_id, verdict = self._early.pop(held.id, ("", ""))
        if verdict and run_id in ("", lease.run_id):
            run.stop(verdict, "it was told before the lease came")

    def _begin_alone(self) -> None:
        """Once nothing else runs and a heartbeat sent since then was acknowledged."""
        for run in self.runs.values():
            waits = run.held.lease.alone and not run.started and run.verdict is None
            if not waits or len(self.held_leases.running()) > 1:
                continue
            if run.held.waits:
                run.held.waits = False
                self.heartbeater.beat(run.lease.home_partition)
            if run.held.announced:
                run.held.started_at = self.seconds

    def _drain(self) -> None:
        if self.seconds >= self._drained_at:
            for run in self.runs.values():
                run.stop("released", "the worker shut down")
        if not self.runs and self._connected():
            self.heartbeater.stop()
            for p in range(self.world.partitions):
                letter = self.heartbeater._farewell(p)
                self.sender.send(letter.topic, letter.key, letter.value, partition=p, done=_ignore)
            self.alive = False
            self.tell("has ended in order")

    def _now(self) -> float:
        return self.world.seconds

    def _connected(self) -> bool:
        return self.seconds >= max(self.cut_until, self.lag_until)


def _ignore(_: Exception | None) -> None:
    """Nobody waits for it."""

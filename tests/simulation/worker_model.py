"""A worker without an event loop: the product's own link, leases and credits, in ticks.

Only its runs (`run_model.py`) and its network (`wire.py`) are models. Its process may be killed,
cut off from the owner of partitions, or slow to reach it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Protocol

from support.tree_script import TreeScript

from simulation.chance import Dice
from simulation.handlers import handler, owner_of
from simulation.line import Lines
from simulation.outside import Call, Outside, Violation
from simulation.run_model import RunModel
from streams.errors import HistoryDiverged, PermanentError
from streams.link.owner import Owner
from streams.process.wall_clock import wall_ms
from streams.serde.records import Command, CommandBody, Lease, Reply
from streams.topology.model import LeasePolicy
from streams.worker.lease.held_leases import Held, HeldLeases
from streams.worker.link.contract import Deadline
from streams.worker.link.identity import Identity
from streams.worker.link.link import Link

Acked = Callable[[bool], None]
"""Called with True once a command is committed, and with False if its deadline came first."""

DRAIN = 20.0
_LEAVE = 3.0


class Surroundings(Protocol):
    """What a worker needs of the world."""

    dice: Dice
    outside: Outside
    partitions: int

    @property
    def seconds(self) -> float: ...

    @property
    def true_ms(self) -> int: ...

    def owners(self) -> Mapping[str, Owner | None]: ...

    def tell(self, *what: object) -> None: ...

    def taken(self, lease: Lease, version: int) -> None: ...

    def lost(self, lease: Lease) -> None: ...

    def spoke(self, lease: Lease, status: str) -> None: ...

    def works(self, lease: Lease, asked: str, function: str) -> None: ...

    def diverges(self, lease: Lease, asked: str, error: HistoryDiverged) -> None: ...

    def calls(self, lease: Lease, call: Call) -> None: ...

    @property
    def has_models(self) -> bool: ...

    def asks(self, lease: Lease, model: str) -> None: ...

    def gathered(self, lease: Lease, told: list[list[str | None]], script: TreeScript) -> None: ...

    def killed_by(self, worker: WorkerModel, lease: Lease) -> None: ...

    def fenced(self, worker: WorkerModel) -> None: ...

    def acknowledged(self, lease: Lease, body: CommandBody) -> None: ...


class WorkerModel:
    """One process of an instance. It is the `Inbox` of its link."""

    def __init__(
        self,
        world: Surroundings,
        instance: str,
        boot: str,
        pool: str,
        slots: int,
        types: tuple[str, ...],
        version: int,
    ) -> None:
        self.id = f"{pool}:{instance}/{boot}"
        self.instance, self.pool, self.version = instance, pool, version
        self.world, self.dice, self.outside = world, world.dice, world.outside
        self.alive = True
        self.lines = Lines()
        self.runs: dict[tuple[str, int], RunModel] = {}
        self.held_leases = HeldLeases(slots, LeasePolicy().margin_seconds, self._now)
        handlers = tuple(handler(type_, version) for type_ in types)
        identity = Identity(instance, boot, pool, handlers)
        self.link = Link(identity, self.held_leases, self, self._now)
        self._early: OrderedDict[tuple[str, int], tuple[str, str]] = OrderedDict()
        self._drained_at = 0.0
        self._leaves_at: float | None = None
        self._is_empty = self._is_fenced = False

    @property
    def seconds(self) -> float:
        return self.world.seconds

    @property
    def true_ms(self) -> int:
        return self.world.true_ms

    @property
    def leaving(self) -> bool:
        return self.held_leases.draining

    def kill(self) -> None:
        """It says nothing more; of what was on its way a part arrives."""
        self.alive = False
        for wire in self.lines.wires:
            wire.die(self.dice.of("kill", self.id).randint(0, len(wire)))
        for run in self.runs.values():
            self.world.lost(run.lease)
        self.runs.clear()

    def stop(self, drain: float = DRAIN) -> None:
        """SIGTERM: take nothing more, let what runs end."""
        if self.alive and not self.leaving:
            self.held_leases.draining = True
            self._drained_at = self.seconds + drain
            self.link.beat()

    def exchange(self) -> bool:
        """Read what came, do what can be done, and send what can be sent; whether any was."""
        owners, now = self.world.owners(), self.seconds
        self.lines.keep(self.link, owners, now)
        moved = self.lines.carry_in(owners, now)
        self._act()
        return self.alive and self.lines.carry_out(owners, now) | moved

    def _act(self) -> None:
        """Go on with every run, and do what is due."""
        if self._is_fenced and not self.leaving:
            self.stop(0)
            self.world.fenced(self)
        self.link.tick()
        self._begin_alone()
        for run in list(self.runs.values()):
            run.advance()
            if not self.alive:
                return
            if run.over:
                del self.runs[run.held.id]
                self.held_leases.drop(run.held)
                self.link.tell()
        if self.leaving:
            self._drain()

    # `Inbox`.

    def leased(self, held: Held) -> None:
        """A lease was taken: its run begins."""
        self._taken(held)

    def replied(self, reply: Reply) -> None:
        """An answer to a command, or the end of a run's lease."""
        self.tell("reads", reply.kind, reply.job_id, reply.message)
        if reply.claim_id:
            for run in self.runs.values():
                run.answered(reply)
        elif reply.kind in ("cancel", "lost"):
            verdict = "cancelled" if reply.kind == "cancel" else "lost"
            run_of = self.runs.get((reply.job_id, reply.epoch))
            if run_of is None:
                self._early[reply.job_id, reply.epoch] = (reply.run_id, verdict)
            elif reply.run_id in ("", run_of.held.lease.run_id):
                run_of.stop(verdict, reply.message)

    def failed(self, error: Exception) -> None:
        """A later process has its name: it ends."""
        self.tell("must end:", error)
        self._is_fenced = True

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

        def done(error: Exception | None) -> None:
            if isinstance(error, PermanentError):
                raise Violation("order_refused", f"{lease.job_id}: {error}")
            if error is None:
                self.world.acknowledged(lease, body)
            acked(error is None)

        command = Command("", lease.tenant_id, lease.job_id, lease.epoch, wall_ms(), body)
        self.link.post(lease.home_partition, command, until, done)

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
                self.link.keep(run.lease.home_partition)
            if run.held.announced:
                run.held.started_at = self.seconds

    def _drain(self) -> None:
        if self.seconds >= self._drained_at:
            for run in self.runs.values():
                run.stop("released", "the worker shut down")
        if self.runs:
            return
        if self._leaves_at is None:
            self._leaves_at = self.seconds + _LEAVE
            self.link.when_empty(self._emptied)
        if self._is_empty or self.seconds >= self._leaves_at:
            self.alive = False
            for wire in self.lines.wires:
                wire.die(0 if self.seconds < self.lines.network.bad_until else len(wire))
            self.tell("has ended in order")

    def _emptied(self, _: None) -> None:
        self._is_empty = True

    def _now(self) -> float:
        return self.world.seconds

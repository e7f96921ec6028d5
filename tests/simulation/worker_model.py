"""A worker without an event loop: it keeps to the protocol of `streams/worker`, a tick at a time.

It believes leases by their MAC, counts their terms from the sending of its heartbeats, and divides
its slots into credits of partitions. Its process may be killed, cut off from Kafka, or slow.
"""

from __future__ import annotations

from typing import Literal, Protocol

from simulation.chance import Dice
from simulation.handlers import handler, owner_of
from simulation.outbox_model import Acked, Deadline, Letter, OutboxModel
from simulation.outside import Outside, Violation
from simulation.run_model import MARGIN, RunModel
from streams.errors import PoisonRecord
from streams.serde.codec import COMMAND, REPLY
from streams.serde.ids import new_id
from streams.serde.lease_mac import open_lease
from streams.serde.records import Command, CommandBody, Declined, Heartbeat, HeldLease, Lease

CLUSTER_KEY = b"k" * 32
HEARTBEAT, TERM, DRAIN, FULL_EVERY = 5.0, 30.0, 20.0, 60.0
Why = Literal["full", "not_mine", "unknown_type", "bad_lease", "draining"]


class Surroundings(Protocol):
    """What a worker needs of the world. `lean` says whether heartbeats are the lean ones."""

    dice: Dice
    outside: Outside
    partitions: int
    lean: bool

    @property
    def seconds(self) -> float: ...

    @property
    def true_ms(self) -> int: ...

    def send(self, letter: Letter) -> None: ...

    def tell(self, *what: object) -> None: ...

    def taken(self, lease: Lease) -> None: ...

    def lost(self, lease: Lease) -> None: ...

    def spoke(self, lease: Lease, status: str) -> None: ...

    def killed_by(self, worker: WorkerModel, lease: Lease) -> None: ...


class WorkerModel:
    """One process of an instance."""

    def __init__(
        self, world: Surroundings, instance: str, boot: str, pool: str, slots: int,
        types: tuple[str, ...], work_partition: int,
    ) -> None:  # fmt: skip
        self.id = f"{pool}-{instance}/{boot}"
        self.instance, self.pool, self.types = instance, pool, types
        self.work_partition = work_partition
        self.world, self.dice, self.outside = world, world.dice, world.outside
        self.alive, self.leaving = True, False
        self.outbox = OutboxModel(world.send, lambda: world.seconds)
        self.runs: dict[tuple[str, int], RunModel] = {}
        self.slots = slots
        self.credit = [0] * world.partitions
        self.received = [0] * world.partitions
        self.cut_until = self.lag_until = 0.0
        self._boot = boot
        self._heartbeats: dict[str, float] = {}
        self._seen: set[str] = set()
        self._beat_at = self._full_at = 0.0
        self._drained_at = 0.0

    @property
    def seconds(self) -> float:
        return self.world.seconds

    @property
    def true_ms(self) -> int:
        return self.world.true_ms

    @property
    def reads(self) -> bool:
        return self.alive and self.seconds >= self.cut_until

    def kill(self) -> None:
        """It says nothing more; of what was on its way a part arrives."""
        self.alive = False
        arrived = self.dice.of("kill", self.id).randint(0, len(self.outbox))
        self.outbox.die(arrived)
        for run in self.runs.values():
            self.world.lost(run.lease)
        self.runs.clear()

    def stop(self) -> None:
        """SIGTERM: take nothing more, let what runs end."""
        if not self.leaving:
            self.leaving = True
            self._drained_at = self.seconds + DRAIN
            self._announce()

    def deploy(self, job_type: str) -> None:
        self.types = (*self.types, job_type)
        self._full_at = self._beat_at = 0.0

    def act(self) -> None:
        """Go on with every run, say what is to be said."""
        self._flush()
        self._begin_alone()
        for run in list(self.runs.values()):
            run.advance()
            if not self.alive:
                return
            if run.over:
                del self.runs[run.id]
        if self.leaving:
            self._drain()
        if self.seconds >= self._beat_at and self.seconds >= self.cut_until:
            self._announce()
        self._flush()

    def replied(self, value: bytes | None) -> None:
        """One record of its partition of `jobs.replies`."""
        reply = REPLY.decode(value)
        if reply.worker_id not in ("", self.id):
            return
        self.tell("reads", reply.kind, reply.job_id, reply.message)
        if reply.kind == "who":
            self._full_at = self._beat_at = 0.0
        elif reply.claim_id:
            for run in self.runs.values():
                run.answered(reply)
        elif reply.kind in ("cancel", "lost"):
            run_of = self.runs.get((reply.job_id, reply.epoch))
            if run_of is not None:
                run_of.stop("cancelled" if reply.kind == "cancel" else "lost", reply.message)

    def wanted(self, partition: int) -> None:
        """A partition has ready jobs and no credits: give it one that another does not use."""
        richest = max(range(len(self.credit)), key=lambda p: self.credit[p])
        if not self.leaving and self.credit[richest] > self.credit[partition]:
            self.credit[richest] -= 1
            self.credit[partition] += 1
            self._beat(richest)
            self._beat(partition)

    def leased(self, value: bytes | None) -> None:
        """One record of its work partition."""
        try:
            lease = open_lease(value, CLUSTER_KEY)
        except PoisonRecord as error:
            raise Violation("lease_forged", str(error)) from error
        mine = lease.worker_id == self.id
        if mine and lease.run_id in self._seen:
            return
        why = self._objection(lease)
        if mine:
            self.received[lease.home_partition] += 1
            self.credit[lease.home_partition] = max(0, self.credit[lease.home_partition] - 1)
        if why is None:
            self._take(lease)
        else:
            self._decline(lease, why)

    def tell(self, *what: object) -> None:
        self.world.tell(self.instance, *what)

    def lost(self, lease: Lease) -> None:
        self.world.lost(lease)

    def killed_by(self, lease: Lease) -> None:
        self.world.killed_by(self, lease)

    def slot_freed(self, lease: Lease) -> None:
        """The partition whose run is over may use its slot again."""
        self._credit_back(lease.home_partition)

    def post(
        self, lease: Lease, body: CommandBody, until: Deadline, acked: Acked = lambda _: None
    ) -> None:
        """Say something about a lease."""
        command = Command(
            new_id("cmd"), lease.tenant_id, lease.job_id, lease.epoch, self.true_ms, body
        )
        key, value = lease.tenant_id.encode(), COMMAND.encode(command)
        self.outbox.post(Letter(lease.home_partition, key, value, until, acked))
        self._flush()

    def _objection(self, lease: Lease) -> Why | None:
        if lease.worker_id != self.id:
            return "not_mine"
        if lease.type not in self.types:
            return "unknown_type"
        if self.leaving:
            return "draining"
        sent_at = self._heartbeats.get(lease.heartbeat_id)
        if sent_at is None or self.seconds >= sent_at + lease.term_seconds - MARGIN:
            return "bad_lease"
        if self._occupied() >= self.slots or self._lonely() is not None:
            return "full"
        return None

    def _take(self, lease: Lease) -> None:
        if owner_of(lease) != lease.tenant_id:
            raise Violation("foreign_tenant", f"{lease.job_id}: {lease.tenant_id}, {lease}")
        self._seen.add(lease.run_id)
        run = RunModel(self, lease, self._heartbeats[lease.heartbeat_id])
        self.runs[run.id] = run
        self.world.taken(lease)
        self.tell("takes", lease.job_id, lease.epoch, "alone" if lease.alone else "")
        if lease.alone:
            self._announce()

    def _decline(self, lease: Lease, why: Why) -> None:
        home, until = lease.home_partition, self.seconds + lease.term_seconds
        self._credit_back(home)
        free = 0 if why == "full" else self.credit[home]
        self.tell("declines", lease.job_id, lease.epoch, why)
        body = Declined(self.id, why, free, "no", received=self.received[home])
        self.post(lease, body, lambda: until)

    def _begin_alone(self) -> None:
        """Once nothing else runs and a heartbeat sent since then has confirmed it."""
        run = self._lonely()
        if run is None or run.started or self._occupied() > 1 or not self._connected:
            return
        self._beat(run.lease.home_partition)
        self._flush()
        run.started = run.basis == self.seconds

    def _lonely(self) -> RunModel | None:
        return next((r for r in self.runs.values() if r.lease.alone and r.running), None)

    def _occupied(self) -> int:
        return sum(run.running for run in self.runs.values())

    @property
    def _spare(self) -> int:
        """Slots that no partition has as credits."""
        if self.leaving or self._lonely() is not None:
            return 0
        promised = sum(self.credit) if self.world.lean else min(self.credit)
        return self.slots - self._occupied() - promised

    def _credit_back(self, partition: int) -> None:
        if self._spare > 0:
            self.credit[partition] += 1

    def _announce(self) -> None:
        """Share out what is free, then one heartbeat to each partition that it concerns."""
        if self.leaving or self._lonely() is not None:
            self.credit = [0] * len(self.credit)
        while self._spare > 0:
            self.credit[min(range(len(self.credit)), key=lambda p: self.credit[p])] += 1
        self._beat_at = self.seconds + HEARTBEAT
        lean = self.world.lean and self.seconds < self._full_at
        if not lean:
            self._full_at = self.seconds + FULL_EVERY
        homes = {run.lease.home_partition for run in self.runs.values()}
        for p, free in enumerate(self.credit):
            if not lean or free or p in homes:
                self._beat(p, lean=lean)

    def _beat(self, partition: int, *, lean: bool = False, leaving: bool = False) -> None:
        now = self.seconds
        listed = [
            run for run in self.runs.values()
            if run.lease.home_partition == partition and run.verdict != "lost"
        ]  # fmt: skip
        body = Heartbeat(
            self.id, self.pool, self.work_partition, self.credit[partition],
            tuple(HeldLease(*run.id) for run in listed),
            () if lean else tuple(map(handler, self.types)),
            received=self.received[partition], lean=lean, leaving=leaving,
        )  # fmt: skip
        command = Command(new_id("cmd"), "", "", 0, self.true_ms, body)
        self._heartbeats[command.command_id] = now

        def acked(ok: bool) -> None:
            for run in listed if ok else ():
                run.basis = max(run.basis, now)

        value, until = COMMAND.encode(command), now + TERM
        self.outbox.post(Letter(partition, self.id.encode(), value, lambda: until, acked))

    def _drain(self) -> None:
        if self.seconds >= self._drained_at:
            for run in self.runs.values():
                run.stop("released", "the worker shut down")
        if not self.runs:
            for p in range(len(self.credit)):
                self._beat(p, leaving=True)
            self._flush()
            self.alive = False
            self.tell("has ended in order")

    @property
    def _connected(self) -> bool:
        return self.seconds >= max(self.cut_until, self.lag_until)

    def _flush(self) -> None:
        if self._connected:
            self.outbox.flush()

"""The whole flow of one seed: stages, workers, tools and an operator, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from support.tree_script import TreeScript

from simulation.acknowledged import acknowledged
from simulation.chance import Dice, ordered_id
from simulation.cluster import HOUR_MS, Cluster
from simulation.door import Door
from simulation.handlers import SCRIPTS
from simulation.invariants import Judge
from simulation.limits import Setup
from simulation.outside import Call, Outside, Violation
from simulation.people import People
from simulation.receivers import Receivers
from simulation.requests import Desk
from simulation.schedules import Schedules
from simulation.wiring import TENANTS, Wiring
from simulation.worker_model import WorkerModel
from streams import dedup, dispatcher, scheduler
from streams.delivery.stage import stage as delivery_stage
from streams.errors import HistoryDiverged
from streams.link.owner import Owner
from streams.runtime.link import LINK
from streams.runtime.memory_broker import CrashPoint
from streams.runtime.processor import Processor
from streams.runtime.stage import AnyStage, FusedStage, Stage
from streams.serde.codec import TENANT
from streams.serde.ids import partition_for
from streams.serde.keys import tenant_key
from streams.serde.records import CommandBody, Lease, TenantRecord
from streams.tenants.endpoints import EndpointSettings, endpoint_record
from streams.tenants.settings import Rate
from streams.topology.model import Topology
from streams.vault.key_encryption import local_vault

STAGES = ("dedup", "scheduler", "dispatcher", "delivery")
STORES = (
    ("dedup", "seen"),
    ("scheduler", "timers"),
    ("dispatcher", "jobs"),
    ("dispatcher", "checkpoints"),
    ("dispatcher", "ledger"),
    ("dispatcher", "approvals"),
    ("dispatcher", "schedules"),
    ("dispatcher", "workflows"),
    ("dispatcher", "parts"),
    ("delivery", "deliveries"),
    ("delivery", "queue"),
)
_VAULT = local_vault(b"k" * 32)
_TICK, _LONG_TICK, _IDLE_TICK = 1.0, 2.5, 5.0
_SUPERVISOR_SECONDS = 3


class World:
    """One seed's world; each operation of a story is a method of it or of its `desk`."""

    def __init__(
        self, seed: int, setup: dict[str, Any], tell: Callable[..., None] | None = None
    ) -> None:
        self.dice = Dice(seed)
        self.outside = Outside(self.dice)
        self.partitions: int = setup["partitions"]
        self.wiring = Wiring(
            self.partitions,
            cap=setup["cap"],
            shared=setup.get("shared", 0),
            tool_cap=setup.get("tool_cap", 0),
            breaker=setup.get("breaker", 0),
            model_cap=setup.get("model_cap", 0),
            max_queued=setup.get("max_queued", 0),
            unrouted=set(setup["unrouted"]),
            limits=Setup(*setup.get("limits", ())),
        )
        self._rounds: int = setup["rounds"]
        self._fused: bool = setup["fused"]
        self._tell = tell
        self.workers: dict[str, WorkerModel] = {}
        self._fleet: dict[str, list[Any]] = {
            name: [*rest, list(types)] for name, *rest, types in setup["workers"]
        }
        self._versions: dict[str, int] = {}
        self._boots = 0
        self._restarts: dict[str, float] = {}
        self._hears_at = self._server_stands_until = self._zombie_until = 0.0
        self.last_fault = 0.0
        """When the flow last stood still, in seconds: until then nobody could be told anything."""
        self.read_again = False
        """Whether the dispatcher has read its inputs again."""
        self._receivers = Receivers(self.dice, lambda *place: self.cluster.records[place])
        topology = self.wiring.topology()
        self.cluster = Cluster(self._stages(), topology, self.partitions)
        self.door = Door(topology.max_queued, self.cluster.records)
        self.judge = Judge(self)
        self.desk = Desk(self)
        self.people = People(self)
        self.schedules = Schedules(self)
        for tenant_id in TENANTS:
            self.endpoint(tenant_id, 0, "set", 0)
            self.endpoint(tenant_id, 1, "set", 0)
        self.cluster.tick(0.2)
        for name in self._fleet:
            self.start_worker(name)

    # What workers need of their surroundings.

    @property
    def seconds(self) -> float:
        return self.cluster.true_ms / 1000

    @property
    def true_ms(self) -> int:
        return self.cluster.true_ms

    def owners(self) -> Mapping[str, Owner | None]:
        """The owners of partitions by address; None while a process stands still."""
        stands = self.seconds < self._server_stands_until
        owners: dict[str, Owner | None] = {"owner": None if stands else self.cluster.owner}
        others = {"second": self.cluster.second, "zombie": self.cluster.zombie}
        return owners | {name: owner for name, owner in others.items() if owner is not None}

    def tell(self, *what: object) -> None:
        if self._tell is not None:
            self._tell(self.true_ms, *what)

    def taken(self, lease: Lease, version: int) -> None:
        self.judge.taken(lease)
        self.judge.code.taken(lease, version)

    def works(self, lease: Lease, asked: str, function: str) -> None:
        self.judge.code.works(lease, asked, function)

    def diverges(self, lease: Lease, asked: str, error: HistoryDiverged) -> None:
        self.judge.code.diverges(lease, asked, error)

    def calls(self, lease: Lease, call: Call) -> None:
        self.judge.approvals.may_call(lease, call)
        self._check_calls(call.tool, self.wiring.tool_cap)

    @property
    def has_models(self) -> bool:
        """Whether a limit counts calls of models."""
        return self.wiring.model_cap > 0

    def asks(self, lease: Lease, model: str) -> None:
        self._check_calls(model, self.wiring.model_cap)

    def _check_calls(self, name: str, cap: int) -> None:
        """See from outside that no more calls of a tool or model are under way than its cap."""
        found = [
            run.lease.job_id
            for worker in self.workers.values()
            for run in worker.runs.values()
            if worker.alive and name in (run.calls, run.asks)
        ]
        if cap and len(found) > cap:
            raise Violation("too_many_calls", f"{name} is called by {found}, at most {cap}")

    def gathered(self, lease: Lease, told: list[list[str | None]], script: TreeScript) -> None:
        self.judge.trees.gathered(lease, told, script)

    def lost(self, lease: Lease) -> None:
        self.judge.run_lost(lease)

    def spoke(self, lease: Lease, status: str) -> None:
        if status == "parked":
            self.judge.answers.parked.add((lease.job_id, lease.epoch))
        if status == "blocked":
            self.judge.blocked.add((lease.job_id, lease.epoch))
        if status == "retry":
            self.judge.failed[lease.job_id, lease.scope] += 1
        if status == "continued":
            self.judge.trees.continued.add((lease.job_id, lease.epoch))

    def acknowledged(self, lease: Lease, body: CommandBody) -> None:
        acknowledged(self, lease, body)

    def killed_by(self, worker: WorkerModel, lease: Lease) -> None:
        self.tell(worker.instance, "is killed by", lease.job_id)
        self.kill_worker(worker.instance)

    # Time.

    def let_pass(self, seconds: float) -> None:
        """In ticks: short ones at first and while jobs go on, long ones while nothing does."""
        while seconds > 0:
            step = _IDLE_TICK if self.judge.quiet() else _TICK if seconds <= 4 else _LONG_TICK
            step = min(seconds, step)
            seconds -= step
            self.tick(step)

    def tick(self, seconds: float) -> None:
        if self.seconds >= self._hears_at:
            self.cluster.unread.clear()
        self.cluster.tick(seconds)
        for name, due in list(self._restarts.items()):
            if self.seconds >= due:
                self.start_worker(name)
        for _ in range(self._rounds):
            before = self.cluster.appended
            if not self._exchange() and self.cluster.appended == before:
                break
            self.cluster.flow()
        self._check()
        if self.seconds >= self._zombie_until:
            self.cluster.bury()
        self.judge.look()

    def leap(self, hours: float) -> None:
        """Hours or days in which nobody asks for anything; machines work or are suspended."""
        for _ in range(8):
            if not any(worker.runs for worker in self.workers.values()):
                break
            self.tick(_LONG_TICK)
        for _ in range(3):
            self.cluster._clock.ms += hours / 3 * HOUR_MS
            self._exchange()
            self.tick(_TICK)
            self.tick(_TICK)
            self.tick(_LONG_TICK)

    # Workers.

    def start_worker(self, name: str, behind_hours: float = 0) -> None:
        """A process under this instance's name; its clock may be behind its predecessor's."""
        old = self.workers.get(name)
        if old is not None and old.alive:
            return
        self._restarts.pop(name, None)
        pool, slots, types = self._fleet[name]
        self._boots += 1
        boot = ordered_id(self.true_ms - round(behind_hours * HOUR_MS), self._boots)
        version = self._versions.get(name, 0)
        self.workers[name] = WorkerModel(self, name, boot, pool, slots, tuple(types), version)
        self.tell(name, "starts as", self.workers[name].id)

    def kill_worker(self, name: str, *, restart: bool = True) -> None:
        worker = self.workers[name]
        if worker.alive:
            worker.kill()
        if restart:
            self._restarts[name] = self.seconds + _SUPERVISOR_SECONDS

    def stop_worker(self, name: str, *, restart: bool = True) -> None:
        self.workers[name].stop()
        if restart:
            self._restarts[name] = self.seconds + 30

    def fenced(self, worker: WorkerModel) -> None:
        """A process has ended because a later one has its name; its supervisor starts another."""
        self._restarts[worker.instance] = self.seconds + _SUPERVISOR_SECONDS

    def deploy(self, name: str, job_type: str) -> None:
        """A handler is added to a worker, from now on and after its restarts."""
        types = self._fleet[name][2]
        if job_type not in types:
            types.append(job_type)
            self.kill_worker(name)

    def release(self, name: str, version: int) -> None:
        """A worker gets another version of all handlers, from now on and after its restarts."""
        self._versions[name] = version
        self.kill_worker(name)

    def reboot_behind(self, name: str, hours: float) -> None:
        """Killed, and started by a machine whose clock is behind."""
        self.kill_worker(name, restart=False)
        self.start_worker(name, hours)

    def snap(self, name: str, known: bool) -> None:
        """A worker's connections break; the owner may not know."""
        worker = self.workers[name]
        for wire in worker.lines.wires if worker.alive else ():
            wire.snap(self.dice.of("snap", worker.id, self.true_ms), known=known)

    def cut(self, name: str, seconds: float) -> None:
        """A worker and its owner cannot reach each other; what they send is on its way."""
        self.workers[name].lines.network.cut = self.seconds + seconds

    def lag(self, name: str, seconds: float) -> None:
        """What a worker sends is on its way for long; it arrives in order."""
        self.workers[name].lines.network.lag = self.seconds + seconds

    def repeat_next(self, name: str, kind: str, away: float) -> None:
        """A worker's connection breaks before what a run of it said next is acknowledged."""
        network = self.workers[name].lines.network
        network.loses_ack_of, network.away = kind, away

    def mute(self, name: str, seconds: float) -> None:
        """What a worker is told is on its way for long; it arrives in order."""
        self.workers[name].lines.network.mute = self.seconds + seconds

    def trickle(self, name: str, seconds: float) -> None:
        """A worker and its owner get one message at a time."""
        self.workers[name].lines.network.trickle = self.seconds + seconds

    # Stages.

    def crash(self, stage: str, at: CrashPoint, times: int) -> None:
        self.cluster.crash(stage, at, times)

    def takeover(self, name: str, which: int) -> None:
        """A new dispatcher hears late of a worker, and is asked meanwhile to cancel a job."""
        self.lag(name, 4)
        self.cluster.reboot("dispatcher")
        self.desk.cancel(which)

    def usurp(self, seconds: float) -> None:
        """The dispatcher loses the broker and goes on for a while; another one takes its place.

        Workers stay connected to the former, and reach the latter sooner or later.
        """
        if self.cluster.zombie is not None or self.seconds < self._server_stands_until:
            return
        self.cluster.usurp("dispatcher")
        self._zombie_until = self.seconds + seconds
        self.last_fault = max(self.last_fault, self._zombie_until)
        for name, worker in self.workers.items():
            later = self.dice.of("reaches", name, self.true_ms).choice((0, 1, seconds, seconds))
            worker.lines.move("owner", "zombie", self.seconds + later)

    def move(self, partition: int, back: bool) -> None:
        """A partition goes to the other of two processes, and perhaps comes back soon."""
        if self.cluster.second is None:
            stages = self._stages()
            self.cluster.share(stages[0] if self._fused else stages[2])
        for _ in range(2 if back else 1):
            self.cluster.move(partition % self.partitions)
            self.cluster.flow()
            self._exchange()

    def halt(self, tenant_id: str, key: str, restart: bool) -> None:
        """An event cancels jobs; the dispatcher may go on elsewhere before all have ended."""
        self.desk.halt(tenant_id, key)
        if restart:
            self.tick(0.1)
            self.cluster.reboot("dispatcher")

    def freeze(self, stage: str, seconds: float) -> None:
        """A process stands still; the broker does not."""
        self.stall(stage, seconds)
        if self.cluster.run_of(stage) is self.cluster.run_of("dispatcher"):
            self._server_stands_until = self.seconds + seconds

    def stall(self, stage: str, seconds: float) -> None:
        """The thread of a stage stands still; the one that serves its link does not."""
        self.cluster.freeze(stage, seconds)
        self.last_fault = max(self.last_fault, self.seconds + seconds)

    def deafen(self, seconds: float) -> None:
        """The owner does not know whether it has read all that came."""
        self.cluster.unread.add(LINK)
        self._hears_at = self.seconds + seconds

    def step_clock(self, hours: float) -> None:
        """Somebody sets the wall clocks of all machines but the broker's."""
        self.cluster.wall.wrong_ms = round(hours * HOUR_MS)

    def reset_offsets(self, stage: str) -> None:
        self.judge.refired |= stage == "scheduler"
        self.read_again |= stage == "dispatcher"
        self.cluster.reset_offsets(stage)

    def lose_timers(self) -> None:
        self.cluster.lose_timers()

    # Settings and floods.

    def toggle_route(self, job_type: str) -> None:
        """A route is added or taken away, and everything restarted."""
        if not self.wiring.toggle_route(job_type):
            self.desk.unowe(job_type)
        self.rewire()

    def toggle_pool(self) -> None:
        self.wiring.heavy = not self.wiring.heavy
        self.rewire()

    def set_cap(self, cap: int) -> None:
        self.wiring.cap = cap
        if self.wiring.limits.cap:
            self.wiring.limits = self.wiring.limits._replace(cap=cap or 2)
        self.rewire()

    def flood(self, job_type: str) -> None:
        """Two tenants want much at once, one after the other."""
        for tenant in TENANTS[:2]:
            for number in range(12):
                self.desk.submit(tenant, f"flood-{number}", job_type, 0)

    def tenant(self, tenant_id: str, what: str) -> None:
        """An operator disables, enables or erases a tenant; an erasure is for good."""
        if what == "erase":
            self.desk.erased.add(tenant_id)
        kind: Literal["tenant", "erasure"] = "erasure" if what == "erase" else "tenant"
        record = TenantRecord(tenant_id, kind, tenant_id, what == "disable", "{}")
        key, value = tenant_key(tenant_id, kind, tenant_id), TENANT.encode(record)
        partition = partition_for(tenant_id, self.partitions)
        at = self.cluster.append("tenants", key, value, partition)
        self.judge.closed_at(tenant_id, at if what != "enable" else None)

    def endpoint(self, tenant_id: str, which: int, what: str, late: float) -> None:
        """An endpoint is set, in one way or another, or removed; its record may come late."""
        id_ = ("all", "ordered", "callbacks")[which]
        key = tenant_key(tenant_id, "endpoint", id_)
        partition = partition_for(tenant_id, self.partitions)
        settings = EndpointSettings(
            url=None if id_ == "callbacks" else f"https://{id_}.example/{what}",
            events=("note", "job.*") if what == "filters" else ("*",),
            ordering="fifo" if id_ == "ordered" else "parallel",
            rate=Rate(count=2, seconds=10) if what == "rate" else None,
            enabled=what != "disable",
        )
        record = endpoint_record(_VAULT, tenant_id, id_, settings, (), {}, self.true_ms)
        value = None if what == "remove" else TENANT.encode(record)
        self.cluster.append("tenants", key, value, partition, late_ms=round(late * 1000))

    def rewire(self) -> None:
        """Everything is stopped and started under the topology of now."""
        self.cluster.rewire(self._stages(), self.wiring.topology())

    def toggle_layout(self) -> None:
        """The stages are fused from now on, or run apart; everything is restarted."""
        self._fused = not self._fused
        self.rewire()

    def _stages(self) -> list[AnyStage]:
        topology = self.wiring.topology()
        parts = (
            dedup.stage(topology),
            scheduler.stage(topology),
            dispatcher.stage(topology),
        )
        fused = [FusedStage("pipeline", parts)] if self._fused else list(parts)
        return [*fused, self._delivery(topology)]

    def _delivery(self, topology: Topology) -> Stage:
        stage = delivery_stage(topology, self._receivers, self._receivers)

        def started(partition: int) -> Processor:
            self._receivers.lose(partition)
            return stage.processor(partition)

        return replace(stage, processor=started)

    # Between workers and dispatcher.

    def _exchange(self) -> bool:
        """Have every worker and the owner read what the other has sent; whether there was any."""
        moved = False
        for worker in self.workers.values():
            moved |= worker.alive and worker.exchange()
        return moved

    def _check(self) -> None:
        """The server looks after its connections."""
        for owner in self.owners().values():
            if owner is not None:
                owner.check()

    # The end.

    def heal(self) -> None:
        """Everything works again, for good."""
        self.outside.kind = True
        self.cluster.frozen.clear()
        self.cluster.unread.clear()
        self.cluster.bury()
        self._server_stands_until = self.seconds
        for run in self.cluster._runs.values():
            run.commits.armed = None
            run.commits.abort(0)
        self.cluster.wall.wrong_ms = 0
        for tenant_id in TENANTS:
            if tenant_id not in self.desk.erased:
                self.tenant(tenant_id, "enable")
        self.wiring.unrouted.clear()
        self.schedules.delete_all()
        self.rewire()
        self._join("w8", "default", "late")
        if self.wiring.heavy:
            self._join("w9", "heavy", *SCRIPTS)
        for name, worker in self.workers.items():
            worker.lines.network.heal(self.seconds)
            if not worker.alive or worker.leaving:
                self._restarts[name] = self.seconds

    def _join(self, name: str, pool: str, *types: str) -> None:
        """One more worker, for types that nobody else may handle."""
        self._fleet[name] = [pool, 2, list(types)]
        self.start_worker(name)

    def settle(self, seconds: float) -> bool:
        """Until nothing is left to do; False where that takes longer.

        As long as jobs ask for new ones, there is more to do.
        """
        end, answered, made = self.seconds + seconds, 0.0, len(self.judge.made)
        while self.seconds < end:
            self.tick(_LONG_TICK)
            if self.judge.quiet():
                if not self.people.clear_trees() and not self.people.regrow_all():
                    return True
                end = max(end, self.seconds + 600)
            if self.seconds >= answered + 30:
                answered = self.seconds
                self.desk.answer_all()
                self.people.decide_all()
                self.people.clear_trees()
            if len(self.judge.made) > made:
                made, end = len(self.judge.made), max(end, self.seconds + 600)
            due = self.judge.next_due()
            if due is not None and due > self.true_ms + 60_000:
                self.leap((due - self.true_ms) / HOUR_MS)
                end = max(end, self.seconds + 600)
        return False

    def canary(self) -> None:
        """The pipeline moves: one more event of each tenant becomes a job that succeeds.

        Raises:
            Violation: it does not.
        """
        for tenant in TENANTS:
            if tenant not in self.desk.erased:
                self.desk.deliver(tenant, "canary", "note")
        settled = self.settle(120)
        self.judge.at_the_end(settled=settled)

"""G1 to G6, held against what the topics, the workers and the tools show.

`look` reads what was committed since the last look, record by record; `at_the_end` asks what can
only be asked once everything has healed and all is quiet.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import orjson

from simulation.answers import Answers
from simulation.approvals import Approvals
from simulation.changed_code import ChangedCode
from simulation.event_cancels import EventCancels
from simulation.flow_control import BATCHED, FlowControl
from simulation.handlers import needed
from simulation.limits import Limits
from simulation.outside import Violation
from simulation.requests import Asked
from simulation.trees import Trees
from simulation.waiting import Waiting
from simulation.wiring import HALT
from streams.runtime.processor import Record
from streams.serde.codec import COMMAND, DEAD_LETTER, ENVELOPE, JOB, LEDGER_ENTRY, SCHEDULE
from streams.serde.effect_scopes import effect_scope
from streams.serde.ids import partition_for
from streams.serde.job_states import TERMINAL
from streams.serde.records import (
    Cancel,
    DeadLetter,
    Decide,
    Job,
    Lease,
    LedgerEntry,
    Move,
    PauseSchedule,
    Replay,
    Reroute,
    SetSchedule,
    Settle,
    SettleSteps,
)

if TYPE_CHECKING:
    from simulation.world import World

_CANCEL_SECONDS = 20
_MOST_OVERTAKEN = 12
_BURIED = ("failed", "dead")
_WENT_ON = "went on without the run"


class _Lane(NamedTuple):
    """The ready jobs of a tenant that compete with those of other tenants of the same kind."""

    tenant_id: str
    kind: tuple[str, str, int]


class Judge:
    """What is known of every job, and whether it may be so."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._read: Counter[tuple[str, int]] = Counter()
        self.waiting = Waiting(world)
        self.answers = Answers(world)
        self.approvals = Approvals(world)
        self.code = ChangedCode(world)
        self.event_cancels = EventCancels(world)
        self.flow_control = FlowControl(world)
        self.limits = Limits(world)
        self.trees = Trees(world)
        self.jobs: dict[str, Job] = {}
        """The newest record of each job that is there."""
        self.made_at: dict[str, int] = {}
        """By job: when it was first there."""
        self.made: dict[str, tuple[str, str]] = {}
        """By request: the job and scope that came of it."""
        self.last: dict[str, Asked] = {}
        """By job: the request that its newest incarnation came of."""
        self.scopes: dict[str, str] = {}
        """By scope: the job that it was made for."""
        self.letters: dict[str, str] = {}
        """By id of a dead letter: its reason."""
        self.injected: set[tuple[str, int, int]] = set()
        self.ledger: dict[bytes, LedgerEntry] = {}
        self.runs: dict[tuple[str, str], list[Lease]] = defaultdict(list)
        """By job and scope: leases that a worker took."""
        self.losses: dict[tuple[str, str], list[Lease]] = defaultdict(list)
        """Those of them that ended without a word."""
        self.failed: Counter[tuple[str, str]] = Counter()
        """How many of them failed: their worker said so, or went on without them."""
        self.blocked: set[tuple[str, int]] = set()
        """Jobs and epochs of the runs that wait for a shared effect, until it is known."""
        self._overtaken: Counter[_Lane] = Counter()
        """Starts of others since a lane last had its turn."""
        self._closed: dict[str, Record] = {}
        self._known_closed: set[str] = set()
        self._timers: dict[bytes, int] = {}
        self._fired: set[bytes] = set()
        self.refired = False
        """Whether the scheduler has read its input again: then a timer may fire twice."""
        self._lives: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._begun: list[Job] = []
        self._cancelled_at: dict[tuple[str, str], int] = {}

    # What workers did.

    def taken(self, lease: Lease) -> None:
        self.runs[lease.job_id, lease.scope].append(lease)

    def run_lost(self, lease: Lease) -> None:
        self.losses[lease.job_id, lease.scope].append(lease)

    def closed_at(self, tenant_id: str, record: Record | None) -> None:
        """A tenant is disabled or erased by a record of `tenants`; None: it is enabled."""
        self._closed.pop(tenant_id, None)
        self._known_closed.discard(tenant_id)
        if record is not None:
            self._closed[tenant_id] = record

    # What was committed.

    def look(self) -> None:
        """Read every topic to its end and hold it against all that is known.

        Raises:
            Violation: something is there that must not be.
        """
        for record in self._news("schedule"):
            if ("schedule", record.partition, record.offset) in self.injected:
                continue
            schedule = SCHEDULE.decode(record.value)
            self._timers[schedule.value] = schedule.due_at
        for record in self._news("jobs.commands"):
            if record.value in self._timers:
                self._timer_fired(record, record.value)
            self.approvals.sent(record)
        for record in self._news("events"):
            self.answers.event(record)
            self.event_cancels.event(record)
        for record in self._news("schedules"):
            self._world.schedules.changed(record)
        for record in self._news("jobs"):
            self._job(record)
            self._committed(record)
        for record in self._news("workflows"):
            self.trees.told(record)
        self.trees.look()
        for record in self._news("dispatcher.checkpoints.changelog"):
            self.answers.left(record)
        for record in self._news("ledger"):
            self._effect(record)
        for record in self._news("dlq"):
            self._letter(record)
        for record in self._news("jobs.held"):
            self.waiting.told(record)
        for record in self._news("approvals"):
            self.approvals.changed(record)
        self.event_cancels.look(self._begun)
        self.flow_control.look()
        self.flow_control.begun(self._begun)
        self._together()
        self.approvals.look()
        self._world.schedules.look()
        self.waiting.look(list(self.jobs.values()))

    def _news(self, topic: str) -> Iterator[Record]:
        for partition in range(self._world.partitions):
            log = self._world.cluster.records[topic, partition]
            read = self._read[topic, partition]
            if read < len(log):
                self._read[topic, partition] = len(log)
                yield from log[read:]

    def _timer_fired(self, record: Record, value: bytes) -> None:
        due = self._timers[value]
        if record.timestamp < due:
            raise Violation("timer_early", f"due at {due}, fired at {record.timestamp}: {value!r}")
        if value in self._fired and not self.refired:
            raise Violation("timer_twice", f"due at {due}: {COMMAND.decode(value)}")
        self._fired.add(value)

    def _job(self, record: Record) -> None:
        job_id = (record.key or b"").decode()
        self.trees.changed(record)
        if record.value is None:
            self.jobs.pop(job_id, None)
            self.limits.changed(job_id, None, None, started=False)
            return
        job, old = JOB.decode(record.value), self.jobs.get(job_id)
        self._world.tell(
            "job",
            job.job_id,
            job.status,
            f"{job.incarnation}.{job.epoch} in {job.scope}",
            f"attempts={job.attempts} lost={job.lost}",
            job.last_error,
        )
        if old is None and job.schedule_id is not None:
            self._world.schedules.made(job, record.timestamp)
        if old is None:
            self.trees.made(job)
        if job.tenant_id != self._world.desk.owners.get(job_id):
            raise Violation("foreign_tenant", f"{job_id} is now of {job.tenant_id}")
        if old is not None and self.trees.begins_anew(job, old):
            self._anew(job, old, record.timestamp)
        elif old is None or old.scope != job.scope or self.root_of(old) != self.root_of(job):
            self._made(job, old)
        else:
            self._went_on(job, old, record.timestamp)
        if job.status == "waiting":
            self.answers.waits(job)
        starts = job.status == "running" and (old is None or old.epoch != job.epoch)
        if starts:
            self._begun.append(job)
        self.limits.changed(job_id, job, old, started=starts)
        self.jobs[job_id] = job
        self.flow_control.changed(job)

    def _committed(self, record: Record) -> None:
        """Hold what runs and has started against the limits after each transaction."""
        commits = self._world.cluster.commits[record.topic, record.partition]
        at = commits.get(record.offset + 1)
        if at is not None:
            self.limits.committed(at)

    def _made(self, job: Job, old: Job | None) -> None:
        """A job, or an incarnation, that was not there before."""
        self._lives[job.job_id].append((job.created_at, math.inf))
        self.made_at.setdefault(job.job_id, self._world.true_ms)
        root, replay = self.root_of(job), self._world.desk.replays.get(job.job_id)
        if old is not None and old.status not in TERMINAL:
            raise Violation("twin", f"{job.job_id} was {old.status} when {root} took its place")
        if replay is not None:
            self._replayed(job, replay)
            return
        if root in self.made:
            raise Violation("twin", f"{root} made {self.made[root]} and then {job.scope}")
        asked, before = self._world.desk.asked[root], self.last.get(job.job_id)
        window = self._world.wiring.topology().window_ms
        if before is not None and asked.at - before.at < window:
            hours = (asked.at - before.at) / 3_600_000
            raise Violation("twin", f"{root} came {hours:.1f} h after {before} and made a job")
        if job.scope in self.scopes:
            raise Violation("scope_reused", f"{job.scope}: {self.scopes[job.scope]}, now {root}")
        self.made[root] = (job.job_id, job.scope)
        self.last[job.job_id] = asked
        self.scopes[job.scope] = root

    def _anew(self, job: Job, old: Job, at: int) -> None:
        """The next incarnation of a job, as one of its runs wants it, or its parent's call.

        The latter goes on in the scope that the job's newest replay had.
        """
        continues = job.continuations > old.continuations
        owner = None if continues else self.root_of(job)
        if job.scope != old.scope and self.scopes.get(job.scope, owner) != owner:
            raise Violation("scope_reused", f"{job.scope}: {self.scopes[job.scope]}, now {job}")
        self.scopes.setdefault(job.scope, self.root_of(job))
        self._cancelled_at.pop((job.job_id, job.scope), None)
        if old.status in TERMINAL:
            self._lives[job.job_id].append((at, math.inf))
        first = replace(job, status="pending", epoch=old.epoch, history=(), cancel_requested=False)
        self._went_on(job, first, at)

    def _replayed(self, job: Job, replay: Replay) -> None:
        if replay.fresh_scope and job.scope in self.scopes:
            raise Violation("scope_reused", f"{job.scope}: {self.scopes[job.scope]}, now {job}")
        self.scopes.setdefault(job.scope, self.root_of(job))

    def _went_on(self, job: Job, old: Job, at: int) -> None:
        due = old.next_retry_at or old.scheduled_at
        is_full = job.type == BATCHED and old.run_id is None
        is_due = due is None or at >= due or (job.job_id, old.epoch) in self.blocked or is_full
        if old.status == "scheduled" and not is_due and job.status in ("pending", "running"):
            raise Violation("early", f"{job.job_id} was due at {due} and is {job.status} at {at}")
        if job.history[-1:] != old.history[-1:]:
            self._failed(job)
        self.code.went_on(job, old)
        self.answers.went_on(job, old)
        if _unburied(old, job):
            self._lives[job.job_id].append((at, math.inf))
        elif old.status in TERMINAL and job.status != old.status:
            raise Violation("ended_twice", f"{job.job_id}: {old.status}, now {job.status}")
        if job.status in TERMINAL and old.status not in TERMINAL:
            begin, _ = self._lives[job.job_id].pop()
            self._lives[job.job_id].append((begin, at))
            self._ended(job, old, at)
        if job.cancel_requested:
            self._cancelled_at.setdefault((job.job_id, job.scope), at)

    def _failed(self, job: Job) -> None:
        """A run did not succeed: perhaps its worker went on without it, which counts."""
        if not (job.history[-1].error or "").endswith(_WENT_ON):
            return
        place = (job.job_id, job.scope)
        if all(lease.epoch != job.epoch for lease in self.losses[place]):
            raise Violation("not_dropped", f"{job.job_id}: {job.last_error}")
        self.failed[place] += 1

    def _ended(self, job: Job, old: Job, at: int) -> None:
        place = (job.job_id, job.scope)
        if job.status == "succeeded":
            if old.cancel_requested:
                raise Violation("cancel_overtaken", f"{job.job_id} succeeded after its cancel")
            self._complete(job)
        if job.status == "cancelled":
            since = self._cancelled_at.get(place, at)
            late = job.result is not None and at - since > _CANCEL_SECONDS * 1000
            if late and self._told(job, old):
                raise Violation("cancel_lost", f"{job.job_id} ran for {at - since} ms after it")
            self._cancel_meant(job)
        if job.status == "dead":
            self._dead(job)

    def _told(self, job: Job, old: Job) -> bool:
        """Whether its worker could read for as long as it takes to be told."""
        worker = next((w for w in self._world.workers.values() if w.id == old.worker_id), None)
        if worker is None or not worker.alive:
            return False
        lines = worker.lines
        cut = max(lines.network.bad_until, lines.dialed_at, self._world.last_fault)
        return self._world.seconds - cut > _CANCEL_SECONDS

    def _complete(self, job: Job) -> None:
        """A job succeeded: all that its handler does was done, or a person says so."""
        for tool, key, once_per in needed(job.type):
            scope, action = effect_scope(job.scope, once_per), f"{tool}/{key}"
            done = self._world.outside.times(job.tenant_id, scope, action)
            if not done and self.approvals.lets(job, action):
                raise Violation("effect_skipped", f"{job.job_id} succeeded without {action}")
        self.trees.complete(job)

    def _cancel_meant(self, job: Job) -> None:
        if job.superseded_by is not None:
            return
        for _, meant in self._world.desk.cancelled.get(job.job_id, ()):
            if meant in (None, self.root_of(job)):
                return
        if job.tenant_id in self._world.desk.erased:
            return
        if self.event_cancels.meant(job) or self._world.schedules.cancels(job):
            return
        if any(r.replay_of == job.job_id for r in self._world.desk.replays.values()):
            return
        if job.parent is not None:
            self.trees.cancelled(job)
            return
        raise Violation("cancelled_unasked", f"{job.job_id} {job.scope}: {job.last_error}")

    def _dead(self, job: Job) -> None:
        place = (job.job_id, job.scope)
        reason = job.end_reason or ""
        if reason == "unknown_type":
            self._unhandled(job)
            return
        if not self.runs[place]:
            raise Violation("dead_unread", f"{job.job_id}: {job.last_error}")
        alone = sum(lease.alone for lease in self.runs[place])
        if self.failed[place] < job.max_attempts and alone < 2 and job.max_attempts > 1:
            raise Violation(
                "buried_early",
                f"{job.job_id} failed {self.failed[place]} times of "
                f"{job.max_attempts} and ran alone {alone} times: {job.last_error}",
            )

    def _unhandled(self, job: Job) -> None:
        waited = self._world.true_ms - job.ready_at
        if waited < self._world.wiring.topology().unhandled_ms:
            raise Violation("dead_unread", f"{job.job_id} waited {waited} ms: {job.last_error}")

    def _effect(self, record: Record) -> None:
        key = record.key or b""
        if record.value is None:
            self.ledger.pop(key, None)
            return
        entry, old = LEDGER_ENTRY.decode(record.value), self.ledger.get(key)
        if old is not None and old.status == "done" and entry.status != "done":
            raise Violation("done_dropped", f"{key!r}: {old}, now {entry}")
        self.ledger[key] = entry

    def _letter(self, record: Record) -> None:
        letter = DEAD_LETTER.decode(record.value)
        self._world.tell("dead letter", letter.id, letter.reason, letter.detail)
        if letter.kind == "record":
            place = (letter.topic or "", letter.partition or 0, letter.offset or 0)
            if place in self.injected or _may_be_refused(letter) or self._unroutable(letter):
                return
            raise Violation("record_lost", f"{letter.id}: {letter.reason}: {letter.detail}")
        self.letters[letter.id] = letter.reason

    def _unroutable(self, letter: DeadLetter) -> bool:
        """Whether it tells of an event that was promised a job, whose route was then taken away."""
        if letter.reason != "no_route" or letter.topic != "events":
            return False
        event_id = ENVELOPE.decode(letter.value).event_id
        if event_id not in self._world.desk.asked:
            return HALT in self._world.wiring.unrouted
        return not self._world.desk.asked[event_id].owed

    # What holds between jobs.

    def _together(self) -> None:
        begun, self._begun = self._begun, []
        if begun:
            self._one_job_a_scope()
            self._fair(begun)
            self._open(begun)
        self._known_closed |= {
            tenant
            for tenant, record in self._closed.items()
            if self._world.cluster.position("dispatcher", record) > record.offset
        }
        self._one_run_a_job()

    def _open(self, begun: list[Job]) -> None:
        for job in begun:
            if job.tenant_id in self._known_closed:
                raise Violation("closed_tenant", f"{job.job_id} of {job.tenant_id} is begun")

    def _fair(self, begun: list[Job]) -> None:
        """Nobody with ready jobs is passed over for long by others with jobs of the same kind."""
        waiting = {
            self._lane(j)
            for j in self.jobs.values()
            if j.status == "pending"
            and j.lost < 2
            and j.tenant_id not in self._closed
            and not self.limits.is_held_back(j)
            and not any(key.call is not None for key in j.limit_keys)  # it waits for a tool
        }
        for lane in [lane for lane in self._overtaken if lane not in waiting]:
            del self._overtaken[lane]
        for job in begun:
            own = self._lane(job)
            self._overtaken.pop(own, None)
            for lane in waiting:
                if lane.kind == own.kind and lane.tenant_id != own.tenant_id:
                    self._overtaken[lane] += 1
                    if self._overtaken[lane] > _MOST_OVERTAKEN:
                        raise Violation("unfair", f"{lane}: {_MOST_OVERTAKEN} others began first")

    def _lane(self, job: Job) -> _Lane:
        partition = partition_for(job.tenant_id, self._world.partitions)
        return _Lane(job.tenant_id, (job.type, job.pool, partition))

    def _one_job_a_scope(self) -> None:
        live: dict[tuple[str, str], str] = {}
        for job in self.jobs.values():
            if job.status in ("pending", "running", "scheduled"):
                other = live.setdefault((job.tenant_id, job.scope), job.job_id)
                if other != job.job_id:
                    raise Violation("two_in_scope", f"{other} and {job.job_id} in {job.scope}")

    def _one_run_a_job(self) -> None:
        active: dict[tuple[str, str], str] = {}
        for worker in self._world.workers.values():
            for run in worker.runs.values() if worker.alive else ():
                if run.active:
                    place = (run.lease.tenant_id, run.lease.scope)
                    other = active.setdefault(place, worker.id)
                    if other != worker.id:
                        raise Violation("two_runs", f"{run.lease.job_id}: {other}, {worker.id}")

    # The end.

    def quiet(self) -> bool:
        return all(j.status in TERMINAL or j.status == "needs_review" for j in self.jobs.values())

    def next_due(self) -> int | None:
        """When the next scheduled job is due, if all others are at rest."""
        busy = [j for j in self.jobs.values() if j.status in ("pending", "running")]
        due = [
            j.next_retry_at or j.scheduled_at or 0
            for j in self.jobs.values()
            if j.status == "scheduled" and j.queued_behind is None
        ]
        return min(due) if due and not busy else None

    def at_the_end(self, *, settled: bool) -> None:
        """What must hold once everything has healed.

        Raises:
            Violation: it does not.
        """
        if not settled:
            stuck = [
                (j.job_id, j.status, j.last_error)
                for j in self.jobs.values()
                if j.status not in TERMINAL and j.status != "needs_review"
            ]
            raise Violation("stuck", f"{stuck[:3]}")
        for job in self.jobs.values():
            if job.status in _BURIED and job.job_id not in self.letters:
                raise Violation("no_dead_letter", f"{job.job_id} is {job.status}")
        self.event_cancels.at_the_end()
        self._world.schedules.at_the_end()
        self.flow_control.at_the_end()
        for asked in self._world.desk.asked.values():
            erased = asked.tenant in self._world.desk.erased
            if asked.owed and not erased and not self._has_job(asked):
                raise Violation("no_job", f"{asked}")

    def _has_job(self, asked: Asked) -> bool:
        """It made one, or repeats a request within its window that has one."""
        window = self._world.wiring.topology().window_ms
        return any(
            self._has_its_own(twin)
            for twin in self._world.desk.asked.values()
            if twin.job_id == asked.job_id and abs(asked.at - twin.at) < window
        )

    def _has_its_own(self, asked: Asked) -> bool:
        """It made a job, or came while one lived, which keeps twins out past the window, too."""
        lives = self._lives[asked.job_id]
        return asked.root in self.made or any(a <= asked.at <= b for a, b in lives)

    # Of one job.

    def root_of(self, job: Job) -> str:
        """The request that a job says it came of."""
        if job.event is not None:
            return job.event.event_id
        root = str(orjson.loads(job.input)["root"])
        return root if job.scheduled_for is None else f"{root}-{job.scheduled_for}"

    def effects(self, job: Job) -> list[LedgerEntry]:
        """The ledger's entries of a job's scope, as an operator reads them."""
        return [
            e for e in self.ledger.values() if (e.tenant_id, e.scope) == (job.tenant_id, job.scope)
        ]


def _may_be_refused(letter: DeadLetter) -> bool:
    """What an operator asks may be too late, or asked twice; all else must be done."""
    if letter.topic != "jobs.commands":
        return False
    body = COMMAND.decode(letter.value).body
    people = Replay | Settle | SettleSteps | Decide | Reroute | Cancel | Move
    return isinstance(body, people | SetSchedule | PauseSchedule)


def _unburied(old: Job, job: Job) -> bool:
    """A worker came that handles its type: it goes on, and may run at once."""
    handled = old.end_reason == "unknown_type" and job.status in ("pending", "running")
    return old.status == "dead" and handled

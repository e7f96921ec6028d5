"""Trees of jobs: each child is made once, ends with its tree, and is counted and forgotten with it.

What holds of any tree of jobs is judged by `support/tree_rules.py`; here is what follows from the
scripts of these ones.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import orjson
from support.family import SPACES
from support.tree_rules import Gather, TreeRules, has_failed, is_doom
from support.tree_script import TreeScript

from simulation.outside import Violation
from simulation.requests import Asked
from simulation.tree_jobs import TREE, child_root, enqueued_id, script_of
from streams.runtime.processor import Record
from streams.serde.codec import JOB
from streams.serde.ids import child_job_id, partition_for
from streams.serde.job_states import SUCCEEDED, TERMINAL
from streams.serde.keys import after, join
from streams.serde.records import Job, Lease, StepResult

if TYPE_CHECKING:
    from simulation.world import World

_PATIENCE_LOOKS, _LOOKS_EACH, _PATIENCE_MS = 10, 4, 20_000
"""A step may end as little as one job."""
_CLEARED_SECONDS = 1_200
_KEPT_HOURS = 24 * 40
Life = tuple[str, int]
"""A job, and the incarnation with which its life began; a continuation belongs to its life."""


class Trees:
    """The jobs of trees, and what became of those above them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rules = TreeRules(Violation, self._numbers, self._is_late)
        self.continued: set[tuple[str, int]] = set()
        """Jobs and epochs of the runs that began their job anew."""
        self._scopes: dict[tuple[str, int], str] = {}
        self._scripts: dict[tuple[str, int], TreeScript] = {}
        """These two by job and incarnation."""
        self._lives: dict[tuple[str, int], Life] = {}
        self._due: list[tuple[Life, Job]] = []
        """Since the last look: jobs below which all may have to end."""
        self._doomed: set[Life] = set()
        self._failed: set[str] = set()
        """The jobs that have ended without success, once at least."""
        self._failed_of: dict[Gather, set[str]] = defaultdict(set)
        """The same of each gather."""
        self._cancelled: list[Job] = []
        self._purged: set[str] = set()

    # What was committed.

    def changed(self, record: Record) -> None:
        """A record of `jobs`, before anything else is made of it.

        Raises:
            Violation: it is not what a call of its parent asked for, or may not be.
        """
        job_id = (record.key or b"").decode()
        job = None if record.value is None else JOB.decode(record.value)
        known = job_id in self._rules.rows
        if job is not None:
            self._note(job)
        if known or (job is not None and job.workflow_id is not None):
            self._rules.changed(job_id, job)
        if job is None and known:
            self._purged.add(job_id)

    def told(self, record: Record) -> None:
        """A record of `workflows`."""
        self._rules.workflows.told(record.key or b"", record.value)

    def made(self, job: Job) -> None:
        """The job of a call is there, for the first time or after it was purged.

        Raises:
            Violation: its parent did not ask for it.
        """
        parent, judge = job.parent, self._world.judge
        if parent is None or job.replay_of is not None:
            return
        scope = self._scopes.get((parent.job_id, parent.incarnation), "")
        owner, root = self._world.desk.owners.get(parent.job_id, ""), judge.root_of(job)
        asked = child_job_id(owner, scope, parent.call), child_root(owner, scope, parent.call)
        if (job.job_id, root) != asked:
            raise Violation("child_unasked", f"{job.job_id} of {root}: {asked} by {parent}")
        if job.job_id in self._purged:
            judge.made.pop(root, None)
        note = Asked(root, owner, job.job_id, job.type, job.created_at, owed=True)
        self._world.desk.noted(note)

    def begins_anew(self, job: Job, old: Job) -> bool:
        """Whether a run of a job, or the call that asked for it, has it begin anew.

        Raises:
            Violation: no run did.
        """
        if job.continuations <= old.continuations:
            return job.parent is not None and job.incarnation > old.incarnation
        epochs = range(old.epoch, job.epoch + 1)
        if all((job.job_id, epoch) not in self.continued for epoch in epochs):
            raise Violation("continued_unasked", f"{job.job_id}: run {old.epoch} did not ask")
        return True

    def cancelled(self, job: Job) -> None:
        """A job that others ask for was cancelled, and nobody asked for that: `look` says why."""
        self._cancelled.append(job)

    def look(self) -> None:
        """All that was committed has been read.

        Raises:
            Violation: one of the rules of trees is broken.
        """
        now = self._world.true_ms
        if self._world.cluster.is_frozen("dispatcher", now):
            self._rules.excuse(now)
        self._rules.look(now)
        self._note_doomed()
        for job in self._cancelled:
            if not self._ends_with_its_tree(job):
                raise Violation("cancelled_unasked", f"{job.job_id}: {job.last_error}")
        self._cancelled.clear()

    # What runs are told.

    def child_failed(self, result: StepResult) -> bool:
        """Whether a wait has raised because a job ended without success."""
        if result.raises != "ChildFailed":
            return False
        told = orjson.loads(result.value or "")
        job = self._rules.rows.get(told["job_id"])
        return job is None or job.job_id in self._failed

    def gathered(self, lease: Lease, told: list[list[str | None]], script: TreeScript) -> None:
        """A run has read how the jobs of its gather ended.

        Raises:
            Violation: they have not, or fewer succeeded than have to.
        """
        statuses = [str(each[0]) for each in told]
        failed = sum(status != SUCCEEDED for status in statuses)
        whole = len(told) == script.count and set(statuses) <= TERMINAL
        if not whole or failed > script.tolerated:
            raise Violation("gather_wrong", f"{lease.job_id} {lease.scope}: {told}")

    def complete(self, job: Job) -> None:
        """A tree has succeeded.

        Raises:
            Violation: a job that it awaits has not, and it does not bear that.
        """
        if job.type != TREE:
            return
        script = script_of(self._world.judge.root_of(job), job.input)
        for name in script.awaited:
            call = enqueued_id(script, name)
            found = self._with_replays(child_job_id(job.tenant_id, job.scope, call))
            enough = TERMINAL if script.bears else {SUCCEEDED}
            if found and enough.isdisjoint(found):  # else it was purged
                raise Violation("parent_hasty", f"{job.job_id} succeeded, and {call} is {found}")

    def _with_replays(self, job_id: str | None) -> list[str]:
        """The states of a job and of its replays: a child may be replayed after its own end."""
        found: list[str] = []
        while job_id and (job := self._rules.rows.get(job_id)) is not None:
            found.append(job.status)
            job_id = job.replayed_as
        return found

    # The end.

    def at_the_end(self) -> None:
        """All has come to rest: trees leave nothing behind, and are purged whole.

        Raises:
            Violation: that is not so.
        """
        if not self._rules.rows:
            return
        self._rules.all_have_ended()
        end = self._world.seconds + _CLEARED_SECONDS
        while self._leftovers():
            if self._world.seconds > end:
                raise Violation("leftovers", f"{self._leftovers()[:3]}")
            self._world.tick(2.5)
        for _ in range(2):
            self._world.leap(_KEPT_HOURS)
        if self._rules.rows or self._leftovers():
            raise Violation("not_purged", f"{list(self._rules.rows)[:3]}, {self._leftovers()[:3]}")

    # Of one job.

    def _note(self, job: Job) -> None:
        place = job.job_id, job.incarnation
        self._scopes[place] = job.scope
        self._lives[place] = life = job.job_id, job.incarnation - job.continuations
        if job.type == TREE and place not in self._scripts:
            self._scripts[place] = script_of(self._world.judge.root_of(job), job.input)
        if is_doom(job):
            self._due.append((life, job))
        if has_failed(job):
            self._failed.add(job.job_id)
            self._failed_of[_gather_of(job)].add(job.job_id)

    def _note_doomed(self) -> None:
        """Note below which jobs all had to end; what a replay has taken over ends with that."""
        for life, job in self._due:
            if is_doom(self._rules.heir(job, self._rules.rows.get)):
                inherited = self._rules.inherited(job)
                self._doomed |= {life, *(self._lives[e.job_id, e.incarnation] for e in inherited)}
        self._due.clear()

    def _ends_with_its_tree(self, job: Job) -> bool:
        """Whether a job above had to end, or the gather that asked for one of them."""
        rows = self._rules.rows.get
        below: Job | None = job
        while below is not None and below.parent is not None and not below.parent.abandoned:
            place, gather = (below.parent.job_id, below.parent.incarnation), below.parent.gather
            parent = rows(place[0])
            heir = None if parent is None else self._rules.heir(parent, rows)
            of_heir = place if heir is None else (heir.job_id, heir.incarnation)
            if self._lives.get(place) in self._doomed:
                return True
            if any(self._gather_failed((*each, gather)) for each in (place, of_heir)):
                return True
            below = heir
        return False

    def _gather_failed(self, place: Gather) -> bool:
        script = self._scripts.get(place[:2])
        failed = len(self._failed_of[place])
        return bool(place[2]) and script is not None and failed > script.tolerated

    def _numbers(self, parent: Job, gather: str) -> bytes | None:
        key = b"G" + join(parent.job_id, str(parent.incarnation), gather)
        partition = partition_for(parent.tenant_id, self._world.partitions)
        return self._world.cluster.task("dispatcher", partition).stores["parts"].get(key)

    def _leftovers(self) -> list[bytes]:
        """What children, gathers and waits have left in the stores."""
        found = []
        for partition in range(self._world.partitions):
            store = self._world.cluster.task("dispatcher", partition).stores["parts"]
            for space in SPACES:
                prefix = bytes([space])
                found += [key for key, _ in store.range(prefix, after(prefix))]
        return found

    def _is_late(self, looks: int, ms: int) -> bool:
        most = _PATIENCE_LOOKS + _LOOKS_EACH * len(self._rules.rows)
        return looks > most and ms > _PATIENCE_MS


def _gather_of(job: Job) -> Gather:
    parent = job.parent
    return ("", 0, "") if parent is None else (parent.job_id, parent.incarnation, parent.gather)

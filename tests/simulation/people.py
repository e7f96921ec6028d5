"""What people decide: about approvals, effects of unknown outcome, and steps of changed code."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

from simulation.handlers import SECRET
from simulation.requests import is_replayable
from simulation.run_approvals import VAULT
from simulation.wiring import TENANTS
from streams.approval_edits import edited
from streams.serde.approval_states import PENDING
from streams.serde.effect_scopes import is_shared, noted, once_per
from streams.serde.ids import new_id
from streams.serde.job_states import TERMINAL
from streams.serde.keys import ledger_key
from streams.serde.records import Approval, Decide, Job, LedgerEntry, Settle, SettleSteps
from streams.vault.sealed_json import open_json, seal_json

if TYPE_CHECKING:
    from simulation.world import World

_PATIENCE_SECONDS = 120
_REGROWN = 3


class People:
    """They see what the read model shows."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.settled_runs: dict[str, str] = {}
        """The runs about whose divergence somebody has decided, and how: the first time counts."""
        self._regrown: Counter[str] = Counter()
        """By request."""

    def decide(self, which: int, what: str, by: str, how: str) -> None:
        """Decide about an approval, first of all about those that wait for it.

        `how`: `twice`, where somebody decides otherwise at the same time; `foreign`, for another
        tenant; `cancel`, while the job is cancelled; `late`, after its end, of which the scheduler
        has not told yet.
        """
        rows = self._world.judge.approvals.rows.values()
        found = sorted(rows, key=lambda each: each.status != PENDING)
        if not found:
            return
        approval = found[which % len(found)]
        tenant = approval.tenant_id
        if how == "late":
            self._outwait(approval)
        if how == "foreign":
            tenant = next(t for t in TENANTS if t != tenant)
        if how == "cancel" and which % 2:
            self._world.desk.cancel_job(approval.job_id)
        self._decide(approval, what, by, tenant)
        if how == "twice":
            self._decide(approval, "reject" if what != "reject" else "edit", "carl", tenant)
        if how == "cancel" and not which % 2:
            self._world.desk.cancel_job(approval.job_id)

    def _outwait(self, approval: Approval) -> None:
        left = ((approval.expires_at or 0) - self._world.true_ms) / 1000
        if approval.status == PENDING and 0 < left < _PATIENCE_SECONDS:
            self._world.freeze("scheduler", left + 5)
            self._world.let_pass(left + 1)

    def decide_all(self) -> None:
        """Approve all that waits."""
        for approval in list(self._world.judge.approvals.rows.values()):
            for by in ("ann", "bob")[: approval.quorum] if approval.status == PENDING else ():
                self._decide(approval, "approve", by, approval.tenant_id)

    def _decide(self, approval: Approval, what: str, by: str, tenant: str) -> None:
        id_, sealed, digests = approval.approval_id, None, tuple[bytes, ...]()
        if what == "edit":
            who = None, VAULT, approval.tenant_id, id_
            asked = open_json(*who, approval.asked)["arguments"]
            value, digests = edited(approval.effects, asked, {"text": f"{SECRET} of {by}"})
            sealed = seal_json(*who, value)
        body = Decide(id_, new_id("dec"), what != "reject", by, "noted", sealed, digests)
        self._world.desk.command(body, tenant, approval.job_id)

    def settle_steps(self, which: int, how: str) -> None:
        """Keep or drop the step for which the code of a job did not ask, or run it as it is."""
        found = self._diverged()
        if found:
            self._settle_steps(found[which % len(found)], how)

    def keep_all(self) -> bool:
        """Keep the step of every job in review for one; whether there was any."""
        found = self._diverged()
        for job in found:
            self._settle_steps(job, "keep")
        return bool(found)

    def _settle_steps(self, job: Job, how: str) -> None:
        ids = (job.diverged or "",)
        kept, dropped = ids if how == "keep" else (), ids if how == "drop" else ()
        self.settled_runs.setdefault(job.run_id or "", how)
        body = SettleSteps(job.run_id or "", kept, dropped, "as released", "ops")
        self._world.desk.command(body, job.tenant_id, job.job_id)

    def _diverged(self) -> list[Job]:
        jobs = self._world.judge.jobs.values()
        return [job for job in jobs if job.status == "needs_review" and job.diverged is not None]

    def fell(self, which: int) -> None:
        """Cancel the so-manieth root of a tree."""
        self._cancel([job for job in self._of_trees() if job.parent is None], which)

    def prune(self, which: int) -> None:
        """Cancel the so-manieth job that others ask for."""
        self._cancel([job for job in self._of_trees() if job.parent is not None], which)

    def regrow(self, which: int, key: int, *, fresh: bool) -> None:
        """Replay the so-manieth job of a tree that can be replayed, the ones highest up first."""
        jobs = [job for job in self._world.judge.jobs.values() if job.workflow_id]
        found = [job for job in jobs if is_replayable(job) and job.replayed_as is None]
        if found:
            old = sorted(found, key=lambda job: job.depth)[which % len(found)]
            self._world.desk.replay_job(old, key, fresh=fresh, again=False)

    def regrow_all(self) -> bool:
        """Replay the root of every tree that has failed, a few times; whether there was any."""
        jobs = [job for job in self._world.judge.jobs.values() if job.workflow_id]
        roots = [job for job in jobs if job.depth == 0 and job.status in ("failed", "dead")]
        left = [job for job in roots if self._regrown[self._world.judge.root_of(job)] < _REGROWN]
        found = [job for job in left if job.replayed_as is None]
        for job in found:
            self._regrown[self._world.judge.root_of(job)] += 1
            self._replay(job)
        return bool(found)

    def clear_trees(self) -> bool:
        """Replay or cancel every job of a tree that is in review; whether there was any."""
        found = [job for job in self._of_trees() if job.status == "needs_review"]
        for job in found:
            if self._world.dice.chance(0.5, "review", job.job_id):
                self._replay(job)
            else:
                self._world.desk.cancel_job(job.job_id)
        return bool(found)

    def _replay(self, job: Job) -> None:
        """Each run of a job has a replay of its own; the keys of operations are lower."""
        self._world.desk.replay_job(job, 10 + job.epoch, fresh=False, again=False)

    def _cancel(self, jobs: list[Job], which: int) -> None:
        if jobs:
            self._world.desk.cancel_job(jobs[which % len(jobs)].job_id)

    def _of_trees(self) -> list[Job]:
        """The jobs of trees that live."""
        jobs = self._world.judge.jobs.values()
        return [job for job in jobs if job.workflow_id and job.status not in TERMINAL]

    def settle(self, which: int) -> None:
        """Somebody has found out what became of an effect of a job in review, and says so."""
        found = [
            (job, entry)
            for job in self._world.judge.jobs.values()
            if job.status == "needs_review"
            for entry in self._effects(job)
            if entry.status in ("claimed", "unknown", "review")
        ]
        if not found:
            return
        job, entry = found[which % len(found)]
        happened = self._world.outside.times(entry.tenant_id, entry.scope, entry.action) > 0
        result = '"found"' if happened else None
        status: Literal["done", "failed"] = "done" if happened else "failed"
        why, scope = "asked the vendor", once_per(entry.scope)
        body = Settle(entry.action, status, result, why, "ops", scope)
        self._world.desk.command(body, job.tenant_id, job.job_id)

    def _effects(self, job: Job) -> list[LedgerEntry]:
        """The effects of a job, and the shared ones that it asked for."""
        judge = self._world.judge
        found = []
        for entry in judge.effects(job):
            key = ledger_key(job.tenant_id, *noted(entry.action))
            about = judge.ledger.get(key) if is_shared(entry.action) else entry
            found += [] if about is None else [about]
        return found

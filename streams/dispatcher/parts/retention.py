"""Forgets finished jobs whose time has come: record, steps, ledger entries, approvals, kept ends.

A finished job whose id lives again is replaced in the table. The store `parts` keeps `x` time
job_id incarnation for it, with its tenant and scope, until its steps and effects are forgotten. A
job is kept as long as the one that asked for it goes on, or may be replayed, since that may ask how
it ended, and as long as jobs below it live: under `P` time job_id it is looked at again.
"""

from __future__ import annotations

from typing import ClassVar

from streams.dispatcher.due import DueSpace
from streams.dispatcher.gathers import ends_in
from streams.dispatcher.job import is_live
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.scopes import in_scope, leave
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.dispatcher.tree import is_needed
from streams.serde.keys import SEPARATOR, after, join, split
from streams.serde.records import Job
from streams.state.store import KeyValueStore

_REPLACED, _KEPT = b"x", b"P"
_LEFT = DueSpace(_REPLACED)
_AGAIN = DueSpace(_KEPT)
_DAY_MS = 86_400_000


class Retention(Part):
    """Goes on behind the last entries that it deleted."""

    keys: ClassVar = {
        _REPLACED: "finished jobs whose id lives again",
        _KEPT: "finished jobs that are kept for the one that asked for them",
    }

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._keep_ms = shared.topology.finished_jobs_ms
        self._finished = self._left = self._kept = b""

    def replaced(self, step: Step, job: Job) -> None:
        # Not from the end: that may be so long ago that `tick` has passed its place.
        key = _LEFT.key(step.now, job.job_id, str(job.incarnation))
        step.store.put(key, join(job.tenant_id, job.scope))

    def tick(self, step: Step) -> None:
        """Forget some of the jobs that are due."""
        step.on_undo(self._return_to, self._finished, self._left, self._kept)
        by = step.now - self._keep_ms
        for entry in step.table.finished(by, AT_ONCE, self._finished):
            self._finished = entry.key
            job = step.table.get(entry.name[0])
            if job is None or is_live(job) or job.updated_at != entry.at:
                step.table.drop_entry(entry.key)
                continue
            _forget(step, job, by)
        for entry in _AGAIN.due(step.store, step.now, AT_ONCE, self._kept):
            self._kept = entry.key
            step.store.delete(entry.key)
            job = step.table.get(entry.name[0])
            if job is not None and not is_live(job) and job.updated_at <= by:
                _forget(step, job, by)
        for entry in _LEFT.due(step.store, by, AT_ONCE, self._left):
            self._left = entry.key
            step.store.delete(entry.key)
            job_id, incarnation = entry.name
            _forget_run(step, job_id, int(incarnation), *split(entry.value))

    def _return_to(self, finished: bytes, left: bytes, kept: bytes) -> None:
        self._finished, self._left, self._kept = finished, left, kept


def _forget(step: Step, job: Job, by: int) -> None:
    """Forget a finished job, or look at it again in a day if it is needed."""
    if is_needed(step, job, by):
        day = step.now // _DAY_MS + 1
        step.store.put(_AGAIN.key(day * _DAY_MS, job.job_id), b"")
        return
    step.forget(job)
    _forget_run(step, job.job_id, job.incarnation, job.tenant_id, job.scope)


def _forget_run(step: Step, job_id: str, incarnation: int, tenant_id: str, scope: str) -> None:
    """Delete a job's steps, and its effects once every job that may read them is gone."""
    _delete_prefix(step.checkpoints, join(job_id, str(incarnation)) + SEPARATOR)
    now = step.table.get(job_id)
    if now is None or now.scope != scope:
        leave(step, job_id, scope)
    if not in_scope(step, scope):
        _delete_prefix(step.ledger, join(tenant_id, scope) + SEPARATOR)
        _delete_prefix(step.approvals, join(tenant_id, scope) + SEPARATOR)
        _delete_prefix(step.store, ends_in(scope))


def _delete_prefix(store: KeyValueStore, prefix: bytes) -> None:
    for key in [key for key, _ in store.range(prefix, after(prefix))]:
        store.delete(key)

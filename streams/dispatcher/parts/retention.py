"""Forgets finished jobs whose time has come: record, steps and ledger entries."""

from __future__ import annotations

from streams.dispatcher.due import DueEntry
from streams.dispatcher.job import is_live
from streams.dispatcher.part import Part
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.dispatcher.table import EXPIRY
from streams.serde.keys import SEPARATOR, after, join, split
from streams.state.store import KeyValueStore

_AT_ONCE = 200


class Retention(Part):
    """Goes on behind the last entry that it deleted."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._behind = b""

    def tick(self, step: Step) -> None:
        """Forget some of the jobs that are due."""
        step.on_undo(setattr, self, "_behind", self._behind)
        for entry in EXPIRY.due(step.store, step.now, _AT_ONCE, self._behind):
            self._behind = entry.key
            step.store.delete(entry.key)
            self._forget(step, entry)

    def _forget(self, step: Step, entry: DueEntry) -> None:
        job_id, incarnation = entry.name
        job = step.table.get(job_id)
        current = job if job is not None and job.incarnation == int(incarnation) else None
        if current is not None and (is_live(current) or step.table.is_kept(current)):
            return  # its id lives again, or was written again since
        _delete_prefix(step.checkpoints, join(job_id, incarnation) + SEPARATOR)
        if current is not None:
            step.forget(current)
        self._leave(step, job_id, *split(entry.value))

    def _leave(self, step: Step, job_id: str, tenant_id: str, scope: str) -> None:
        """Delete ledger entries only after every job that may read them is gone."""
        step.table.unshare(job_id, scope)
        if not step.table.in_scope(scope):
            _delete_prefix(step.ledger, join(tenant_id, scope) + SEPARATOR)


def _delete_prefix(store: KeyValueStore, prefix: bytes) -> None:
    for key in [key for key, _ in store.range(prefix, after(prefix))]:
        store.delete(key)

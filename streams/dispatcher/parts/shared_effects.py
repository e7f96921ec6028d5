"""Effects of scopes that jobs share: who waits for one, and when one is forgotten.

A settled effect is deleted once its `keep` is over since it was known, whether its jobs are kept or
not. One of unknown outcome stays, because somebody has to find out; it is looked at once a day. The
effects of an erased tenant are deleted together with its last jobs. The store `parts` keeps `E`
time tenant for that.
"""

from __future__ import annotations

from itertools import islice
from typing import ClassVar

import orjson

from streams.closed_tenants import address_of
from streams.dispatcher.due import DueSpace
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.review import DECIDED, WAITING, forget_waits, let_others_go_on
from streams.dispatcher.shared import Shared
from streams.dispatcher.shared_effects import EXPIRES, EXPIRIES, await_effect, expire_at
from streams.dispatcher.step import Step
from streams.ledger_entries import get
from streams.runtime.part import handles, reads
from streams.runtime.processor import Context, Record
from streams.serde import run_ends
from streams.serde.effect_scopes import effect_scope, every_shared
from streams.serde.effect_states import UNSETTLED
from streams.serde.keys import after, join, ledger_key
from streams.serde.records import Ended, Job, LedgerEntry

_ERASED = b"E"
_ERASURES = DueSpace(_ERASED)
_DAY_MS = 86_400_000


class SharedEffects(Part):
    """Goes on behind the last times at which it looked."""

    keys: ClassVar = {
        WAITING: "jobs that wait for a shared effect",
        DECIDED: "shared effects that are known, while jobs are left to go on",
        EXPIRES: "when to look whether a shared effect is kept any longer",
        _ERASED: "when the shared effects of an erased tenant are forgotten",
    }

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._behind = b""

    def restored(self, ctx: Context) -> None:
        found = ctx.store("parts").range(WAITING, after(WAITING))
        self.shared.awaits_effects = next(iter(found), None) is not None

    @handles(run_ends.BLOCKED)
    def blocked(self, step: Step, job: Job, body: Ended) -> None:
        """Have the job ask again when the other job's call has ended."""
        await_effect(step, job, _awaited(step, job, body), body.error)

    @reads("tenants")
    def erased(self, step: Step, record: Record) -> None:
        """Note an erasure; its jobs are ended now, and kept as long as any others."""
        address = address_of(record.key)
        if address is not None and address[1] == "erasure" and record.value is not None:
            due = step.now + self.topology.finished_jobs_ms
            step.store.put(_ERASURES.key(due, address[0]), b"")

    def ended(self, step: Step, job: Job) -> None:
        forget_waits(step, job)

    def replaced(self, step: Step, job: Job) -> None:
        """Forget what a job waited for that begins anew, in another scope."""
        forget_waits(step, job)

    def tick(self, step: Step) -> None:
        """Do some of what is due."""
        let_others_go_on(step)
        step.on_undo(setattr, self, "_behind", self._behind)
        for due in EXPIRIES.due(step.store, step.now, AT_ONCE, self._behind):
            self._behind = due.key
            step.store.delete(due.key)
            tenant_id, scope, action = due.name
            entry = get(step.ledger, tenant_id, scope, action)
            if entry is not None:
                _expire(step, entry)
        for erasure in _ERASURES.due(step.store, step.now, 1):
            if _erase_some(step, erasure.name[0]):
                step.store.delete(erasure.key)


def _awaited(step: Step, job: Job, body: Ended) -> LedgerEntry | None:
    """The effect that a run asked for; None if its end does not name one."""
    try:
        once_per, action = orjson.loads(body.result or "null")
        return get(step.ledger, job.tenant_id, effect_scope(job.scope, once_per), action)
    except (ValueError, TypeError, AttributeError):
        return None


def _expire(step: Step, entry: LedgerEntry) -> None:
    """Delete an effect whose time is over, or look again later."""
    over_at = entry.updated_at + entry.keep_ms
    if entry.status in UNSETTLED:
        expire_at(step, entry, max(over_at, step.now + _DAY_MS))
    elif over_at > step.now:
        expire_at(step, entry, over_at)
    else:
        step.ledger.delete(ledger_key(entry.tenant_id, entry.scope, entry.action))


def _erase_some(step: Step, tenant_id: str) -> bool:
    """Delete shared effects of an erased tenant, and who waits for them; whether none are left."""
    shared = join(tenant_id, every_shared())
    places = (step.ledger, shared), (step.store, WAITING + shared), (step.store, DECIDED + shared)
    found = [
        (store, key)
        for store, prefix in places
        for key, _ in islice(store.range(prefix, after(prefix)), AT_ONCE)
    ]
    for store, key in found:
        store.delete(key)
    return len(found) < AT_ONCE

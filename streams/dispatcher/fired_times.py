"""Until when schedules had fired that were to be deleted earlier: the dispatcher read of it late.

One that is made anew from before then fires none of these times again. The store `parts` keeps `Sf`
tenant id for each that was deleted so, until it is made anew or its tenant is erased.
"""

from __future__ import annotations

import struct

from streams.dispatcher.step import Step
from streams.serde.keys import SEPARATOR, after, join
from streams.serde.records import ScheduleRow

_SPACE = b"Sf"
_TIME = struct.Struct(">Q")


def keep(step: Step, row: ScheduleRow, at: int) -> None:
    """Keep until when a schedule has fired that is to be deleted as of `at` (milliseconds)."""
    if row.since > at:
        step.store.put(_SPACE + join(row.tenant_id, row.schedule_id), _TIME.pack(row.since))


def since(step: Step, tenant_id: str, schedule_id: str, at: int) -> int:
    """From when on a schedule counts that is made at `at` (milliseconds)."""
    key = _SPACE + join(tenant_id, schedule_id)
    value = step.store.get(key)
    if value is None:
        return at
    step.store.delete(key)
    fired: int = _TIME.unpack(value)[0]
    return max(at, fired)


def forget_tenant(step: Step, tenant_id: str) -> None:
    """Keep nothing of a tenant's schedules any more."""
    prefix = _SPACE + join(tenant_id) + SEPARATOR
    for key, _ in list(step.store.range(prefix, after(prefix))):
        step.store.delete(key)

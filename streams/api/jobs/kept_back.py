"""Pending jobs that are kept from starting until somebody or something lets them: paused or held.

A job that waits because all workers are busy (`no_slot`) is held, too, but not kept back: it would
start if there were fewer jobs, or more workers.
"""

from __future__ import annotations

_IS_HELD = (
    "SELECT 1 FROM held h WHERE h.part = jobs.part AND h.pool = jobs.pool AND h.type = jobs.type "
    "AND h.tenant_id IN ('', jobs.tenant_id) AND h.reason <> 'no_slot'"
)
_PAUSES = "SELECT 1 FROM tenants p WHERE p.kind = 'pause' AND"
_TENANT_IS_PAUSED = f"{_PAUSES} p.tenant_id = jobs.tenant_id AND p.id = ''"
_TYPE_OR_POOL_IS_PAUSED = (
    f"{_PAUSES} p.tenant_id = '' AND p.id IN "
    "(jobs.part || '/job_type/' || jobs.type, jobs.part || '/pool/' || jobs.pool)"
)
_SOURCE_OR_TOOL_IS_PAUSED = (
    "SELECT 1 FROM json_each(jobs.limit_keys) mark CROSS JOIN tenants p WHERE p.kind = 'pause' "
    "AND p.tenant_id = '' AND p.id = jobs.part || json_extract(mark.value, '$[0]') || '/' || "
    "json_extract(mark.value, '$[1]')"
)
IS_KEPT_BACK = " OR ".join(
    f"EXISTS ({each})"
    for each in (_IS_HELD, _TENANT_IS_PAUSED, _TYPE_OR_POOL_IS_PAUSED, _SOURCE_OR_TOOL_IS_PAUSED)
)
"""SQL for rows of `jobs` that are pending.

A job has a mark of a paused source or tool, such as `/tool`, once it was about to start.
"""

"""Effects whose outcome nobody knows, and whose jobs have ended: a person may settle them.

An effect of a job in review is settled there; one of a job that still runs or waits is asked for
again. A replay in the same scope is such a job, too. So is the job that claimed a shared effect
last; no job is needed to settle that.
"""

from __future__ import annotations

import sqlite3

from streams.api.effects.table import IS_UNSETTLED, effect_json
from streams.api.jobs.table import IS_LIVE, job
from streams.api.rows.json_values import Json
from streams.api.rows.paging import Entry, Listing
from streams.ledger import settleable_at
from streams.serde.codec import LEDGER_ENTRY
from streams.serde.effect_scopes import is_shared
from streams.topology.model import LeasePolicy

_TERM_SECONDS = LeasePolicy().term_seconds
"""The term of a lease, unless the topology has another: the dispatcher tells the exact time."""

_IN_ITS_SCOPE = (
    "SELECT 1 FROM jobs j WHERE j.tenant_id = effects.tenant_id"  # noqa: S608  constants
    f" AND j.scope = effects.scope AND j.{IS_LIVE}"
)
"""A job that has not ended in the scope of an effect."""
_CLAIMED_IT = (
    "SELECT 1 FROM jobs j WHERE effects.scope GLOB '@*'"  # noqa: S608  constants
    f" AND j.job_id = effects.job_id AND j.tenant_id = effects.tenant_id AND j.{IS_LIVE}"
)
"""A job that has not ended and claimed a shared effect last."""
OF_NO_LIVE_JOB = f"NOT EXISTS ({_IN_ITS_SCOPE}) AND NOT EXISTS ({_CLAIMED_IT})"
"""SQL for effects that no job is about to settle by itself."""


def _item(connection: sqlite3.Connection, entry: Entry) -> Json:
    found = LEDGER_ENTRY.decode(entry.record)
    owner = job(connection, found.job_id)
    if owner is not None and not is_shared(found.scope) and owner.scope != found.scope:
        owner = None  # a later incarnation: a settlement would be about its own effect
    can_be_settled = owner is not None or is_shared(found.scope)
    settle_after = settleable_at(found, owner, _TERM_SECONDS) if can_be_settled else None
    return {
        "tenant_id": found.tenant_id,
        "type": None if owner is None else owner.type,
        "job_status": None if owner is None else owner.status,
        **effect_json(found, settle_after),
    }


LISTING = Listing(
    "effects",
    ("/v1/effects/unknown",),
    _item,
    order=("first_claimed_at", "id"),
    # `+` keeps SQLite from the index of all effects of a tenant.
    conditions={"tenant_id": "+tenant_id = ?"},
    where=f"{IS_UNSETTLED} AND {OF_NO_LIVE_JOB}",
)

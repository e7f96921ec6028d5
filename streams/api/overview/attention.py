"""What waits for a person: counts with a bound, each with the list that has its items."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from streams.access.principal import Principal
from streams.api.backlog.table import backlog, is_seen
from streams.api.bulk.table import stopped_acts
from streams.api.dead_letters.table import HAS_NO_JOB, IS_MANUAL, IS_OPEN
from streams.api.effects.table import IS_UNSETTLED
from streams.api.effects.unknown_table import OF_NO_LIVE_JOB
from streams.api.endpoints.table import IS_CUT_OFF, IS_ENABLED, IS_FAILING
from streams.api.limits.circuits import cut_off
from streams.api.quarantine.table import IS_WAITING
from streams.api.rows.bounded import MOST, Bounded, bounded
from streams.api.rows.json_values import Json
from streams.api.rows.restricted import RestrictedConnection
from streams.api.rows.table import status_in
from streams.serde import approval_states, delivery_states, job_states
from streams.topology.model import Topology


@dataclass(frozen=True, slots=True)
class Matter:
    """Rows that wait for a person; `path` is their list.

    Rows of a table for which `where` holds are looked at, and those count for which `keep` holds.
    With `has_common`, the table has rows of all tenants together, which the list shows to nobody
    who has not all tenants.
    """

    name: str
    path: str
    table: str
    where: str = "TRUE"
    keep: str = "1"
    has_common: bool = False


MATTERS = (
    Matter(
        "dead_letters",
        "/v1/dlq?not_replayed=true",
        "dead_letters",
        IS_OPEN,
        keep=HAS_NO_JOB,
    ),
    Matter("manual_work", "/v1/dlq?manual=true", "dead_letters", IS_MANUAL),
    Matter("reviews", "/v1/jobs?status=needs_review", "jobs", status_in(job_states.NEEDS_REVIEW)),
    Matter(
        "unknown_effects",
        "/v1/effects/unknown",
        "effects",
        IS_UNSETTLED,
        keep=OF_NO_LIVE_JOB,
    ),
    Matter(
        "approvals",
        "/v1/approvals?status=pending",
        "approvals",
        status_in(approval_states.PENDING),
    ),
    Matter("held", "/v1/held", "held", has_common=True),
    # What is paused beside tenants has a record in each partition.
    Matter(
        "paused",
        "/v1/limits",
        "tenants",
        "kind = 'pause'",
        keep="tenant_id <> '' OR id GLOB '0/*'",
    ),
    Matter("quarantined", "/v1/quarantine?status=waiting", "quarantine", IS_WAITING),
    Matter(
        "open_circuits",
        "/v1/endpoints?state=cut_off",
        "endpoint_states",
        IS_CUT_OFF,
        keep=IS_ENABLED,
    ),
    Matter(
        "failing_endpoints",
        "/v1/endpoints?state=failing",
        "endpoint_states",
        IS_FAILING,
        keep=IS_ENABLED,
    ),
    Matter(
        "parked_deliveries",
        "/v1/deliveries?status=parked",
        "deliveries",
        status_in(delivery_states.PARKED),
    ),
)


def attention_json(
    connection: sqlite3.Connection, principal: Principal, topology: Topology
) -> Json:
    """Return how much waits for a person, and how many rows are looked at for each count."""
    depths = backlog(connection, topology.max_queued).known()
    full = sum(each.is_full and is_seen(principal, each) for each in depths)
    found = [
        *((each.name, each.path, _of_rows(connection, each)) for each in MATTERS),
        ("full_backlogs", "/v1/backlog", Bounded(full, more=False)),
        ("open_breakers", "/v1/limits", _open_breakers(connection, topology)),
        ("stopped_bulk_acts", "/v1/bulk", stopped_acts(connection)),
    ]
    return {"most": MOST, "counts": [count_json(*each) for each in found]}


def count_json(name: str, path: str, found: Bounded) -> Json:
    """Return a count beside the path of its list; `more`: there may be more than it says."""
    return {"name": name, "count": found.count, "more": found.more, "list": path}


def _open_breakers(connection: sqlite3.Connection, topology: Topology) -> Bounded:
    """Return how many tools are cut off; without breakers, what jobs had before says nothing."""
    return cut_off(connection) if topology.breakers else Bounded(0, more=False)


def _of_rows(connection: sqlite3.Connection, matter: Matter) -> Bounded:
    where = matter.where
    if matter.has_common and isinstance(connection, RestrictedConnection):
        where = f"{where} AND tenant_id <> ''"
    return bounded(connection, matter.table, where, matter.keep)

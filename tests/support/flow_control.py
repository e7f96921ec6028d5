"""Flow control: a dispatcher whose route or job type declares it, and what is left in the store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streams.serde.codec import ENVELOPE
from streams.serde.ids import event_job_id
from streams.serde.keys import after
from streams.topology.model import JobType, Route
from support.dispatching import Desk, ScriptedWorker, envelope

ROUTE = Route("zendesk", "ticket.*", "draft_reply", "webhook")
KEPT = (b"A", b"M", b"Q", b"O")


def routed(**declared: Any) -> Desk:
    """A dispatcher whose route declares this."""
    return started(routes=(replace(ROUTE, **declared),))


def typed(**declared: Any) -> Desk:
    """A dispatcher whose job type declares this."""
    return started(routes=(ROUTE,), job_types={"draft_reply": JobType("draft_reply", **declared)})


def started(**changes: Any) -> Desk:
    desk = Desk()
    deploy(desk, **changes)
    return desk


def deploy(desk: Desk, **changes: Any) -> None:
    """The dispatcher starts anew with this, and makes its round."""
    desk.deploy(**changes)
    desk.driver.advance(1)


def event(
    desk: Desk,
    key: str,
    subject: str | None = "t1",
    *,
    tenant: str = "acme",
    type_: str = "ticket.created",
    source: str = "zendesk",
    at: int = 0,
    **attributes: str,
) -> str:
    """An event of a subject, whose id is its key; returns the id of its job."""
    made = envelope(tenant, key, type_)
    made = replace(made, event_id=f"evt_{key}", subject=subject, attributes=attributes)
    made = replace(made, source=source)
    desk.driver.pipe("events", tenant.encode(), ENVELOPE.encode(made), timestamp=at or None)
    return event_job_id(tenant, source, key)


def statuses(desk: Desk, *ids: str) -> list[str]:
    return [desk.job(job_id).status for job_id in ids]


def taken(desk: Desk, *ids: str) -> list[str | None]:
    """By which job each of these was superseded; each is cancelled, and says so."""
    jobs = [desk.job(job_id) for job_id in ids]
    for job in jobs:
        assert job.status == "cancelled", job
        assert job.end_reason == "superseded"
        assert job.last_error == f"Cancelled: superseded by {job.superseded_by}"
    return [job.superseded_by for job in jobs]


def kept(desk: Desk, prefixes: tuple[bytes, ...] = KEPT) -> list[bytes]:
    """The keys of flow control in the store."""
    store = desk.driver.store("dispatcher", "parts")
    return [key for prefix in prefixes for key, _ in store.range(prefix, after(prefix))]


def leased(desk: Desk) -> list[str]:
    """The ids of the jobs that were leased, in that order."""
    return [lease.job_id for lease in desk.leases()]


def worker(desk: Desk, **given: Any) -> ScriptedWorker:
    return ScriptedWorker(desk, **given)

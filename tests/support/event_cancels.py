"""Events that cancel jobs: the routes, the events, and what is left of them in the store."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client import REGISTRY

from streams.serde.codec import ENVELOPE
from streams.serde.ids import event_job_id, fingerprint
from streams.serde.keys import after
from streams.serde.records import Reroute
from streams.topology.model import Cancels, Route
from support import decoded
from support.dispatching import Desk, envelope

BY_SUBJECT = Cancels("follow_up", "subject")
CREATED = Route("zendesk", "ticket.created", "follow_up", "webhook")
SOLVED = Route("zendesk", "ticket.solved", None, "webhook", BY_SUBJECT)
UPDATED = Route("zendesk", "ticket.updated", "follow_up", "webhook", BY_SUBJECT)
ROUTES = (CREATED, SOLVED, UPDATED, Route("zendesk", "*", "draft_reply", "webhook"))
KEPT = (b"I", b"J", b"C")
TYPES = ("follow_up", "draft_reply")


def cancelling(*routes: Route) -> Desk:
    """A dispatcher with these routes, or with the usual ones."""
    desk = Desk()
    deploy(desk, *(routes or ROUTES))
    return desk


def deploy(desk: Desk, *routes: Route) -> None:
    """The dispatcher starts anew with these routes, and makes its round."""
    desk.deploy(routes=routes)
    desk.driver.advance(1)


def event(
    desk: Desk,
    key: str,
    type_: str = "ticket.created",
    subject: str | None = "t1",
    *,
    tenant: str = "acme",
    at: int = 0,
    routed: bool = True,
    **attributes: str,
) -> str:
    """An event of a subject; returns the id of the job that it may have."""
    made = replace(
        envelope(tenant, key, type_), subject=subject, attributes=attributes, routed=routed
    )
    value = ENVELOPE.encode(made)
    desk.driver.pipe("events", tenant.encode(), value, timestamp=at or None)
    return event_job_id(tenant, "zendesk", key)


def kept(desk: Desk) -> list[bytes]:
    """The keys in the store that belong to cancels by events."""
    store = desk.driver.store("dispatcher", "parts")
    return [key for prefix in KEPT for key, _ in store.range(prefix, after(prefix))]


def statuses(desk: Desk, *ids: str) -> list[str]:
    return [desk.job(job_id).status for job_id in ids]


def made(desk: Desk, job_id: str) -> bool:
    return any(record.key == job_id.encode() for record in desk.driver.output("jobs"))


def count(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"tidegate_dispatcher_{name}_total", labels) or 0


def flood(desk: Desk, jobs: int = 450) -> list[str]:
    with desk.held_back():
        return [event(desk, f"e{number}") for number in range(jobs)]


def cancelled(desk: Desk) -> int:
    newest = {record.key: record.value for record in desk.driver.output("jobs")}
    return sum(decoded.job(value).status == "cancelled" for value in newest.values() if value)


def reroute(desk: Desk, key: str) -> None:
    desk.command(Reroute(fingerprint("acme", "zendesk", key), "it was ours", "ops"))

"""What `tidegate deliveries ...` prints for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from streams.cli.cells import Json, console_of_any_width, print_fields, tell
from streams.cli.lists import listed, page
from streams.cli.tables import number_matched
from streams.serde.delivery_states import DELIVERED, ENDPOINT_DISABLED, ENDPOINT_REMOVED, PENDING

_DELIVERIES = (
    "status",
    "endpoint_id",
    "type",
    "tenant_id",
    "attempt_count",
    "next_attempt_at",
    "created_at",
    "delivery_id",
    "last_error",
)
_RELATED = (
    "status",
    "endpoint_id",
    "type",
    "attempt_count",
    "next_attempt_at",
    "delivery_id",
    "last_error",
)
_ATTEMPTS = ("attempt", "at", "status", "duration_ms", "error", "address", "detail")


def delivery(found: Json) -> None:
    """One delivery, then its attempts, and what the receiver answered last."""
    console = console_of_any_width()
    apart = ("attempts", "answered", "waits")
    print_fields(console, {k: v for k, v in found.items() if k not in apart})
    if waits := found.get("waits"):
        shown = {name: value for name, value in waits.items() if name != "remedy"}
        print_fields(console, shown, "why it waits")
    if attempts := found["attempts"]:
        console.print("attempts")
        listed(attempts, _ATTEMPTS, None)
        if excerpt := attempts[-1]["excerpt"]:
            print_fields(console, {"the last answer begins": excerpt})


_PARKED = {
    ENDPOINT_DISABLED: "its endpoint is disabled; enable it with `tidegate endpoints set`",
    ENDPOINT_REMOVED: "its endpoint was removed; create it with `tidegate endpoints set`",
}


def retried(found: Json) -> None:
    due = found["next_attempt_at"]
    when = f", its next attempt at {due}" if found["status"] == PENDING and due else ""
    if waits := found.get("waits"):
        when = f", and it waits: {waits['detail']}"
    if because := found["parked_because"]:
        when = f": {_PARKED[because]}, then retry it again"
    tell(f"{found['delivery_id']} to endpoint {found['endpoint_id']} is {found['status']}{when}")


def related(console: Console, found: Sequence[Json]) -> None:
    """The deliveries of an event or of a job's end, if there are any."""
    if found:
        console.print("deliveries")
        listed([_row(each) for each in found], _RELATED, None)


def recovery(found: Json) -> None:
    """What a recovery would make due, or how far it is."""
    what = "delivery" if found["matched"] == 1 else "deliveries"
    matched = f"{number_matched(found)} {what}"
    if found.get("dry_run"):
        tell(f"{matched} would be due")
        return
    so_far = found["recovery"]
    if so_far is None:
        tell(f"{matched} will be due: the recovery has not begun")
    elif so_far["ended_at"] is None:
        tell(f"{so_far['recovered']} of {matched} are due so far")
    else:
        tell(f"{so_far['recovered']} of {matched} are due: the recovery has ended")


def _row(found: Json) -> Json:
    """A delivery whose status says why it is parked or waits; its error may be an answered status.

    A delivered one's error is an old one.
    """
    status = found["status"]
    if because := found["parked_because"] or (found.get("waits") or {}).get("reason"):
        found = {**found, "status": f"{status}: {because}"}
    if status == DELIVERED:
        return {**found, "last_error": None}
    answered = found["last_error"] == "status" and found["last_status"]
    return {**found, "last_error": str(answered)} if answered else found


deliveries = page("deliveries", _DELIVERIES, _row)

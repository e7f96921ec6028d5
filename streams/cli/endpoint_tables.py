"""What `tidegate endpoints ...` prints for people."""

from __future__ import annotations

from streams.cli.cells import Json, console_of_any_width, print_fields
from streams.cli.lists import listed

_ENDPOINTS = ("endpoint_id", "enabled", "state", "failing_since", "url", "events")
_KEYS = ("kind", "secret_ref", "until", "public_key")
_ATTEMPTS = ("attempt", "at", "duration_ms", "status", "error", "address", "detail")
_APART = ("keys", "state", "secret")


def endpoints(found: Json) -> None:
    """A page of endpoints."""
    listed([_row(each) for each in found["endpoints"]], _ENDPOINTS, found["next_cursor"])


def endpoint(found: Json) -> None:
    """One endpoint, then its keys, its state, and after a change the secret that was made."""
    console = console_of_any_width()
    print_fields(console, {k: v for k, v in found.items() if k not in _APART})
    console.print("keys that sign")
    listed(found["keys"], _KEYS, None)
    print_fields(console, found["state"], "state")
    if "secret" in found:
        print_fields(console, {"secret": found["secret"]}, "shown this once")


def removed(found: Json) -> None:
    """A removed endpoint."""
    print_fields(console_of_any_width(), found)


def tested(found: Json) -> None:
    """A test's delivery, its attempts, and the beginning of the last answer."""
    console = console_of_any_width()
    print_fields(console, {"delivery_id": found["delivery_id"]})
    listed(found["attempts"], _ATTEMPTS, None)
    if found["attempts"] and (excerpt := found["attempts"][-1]["excerpt"]):
        print_fields(console, {"answer": excerpt})


def _row(endpoint: Json) -> Json:
    state = endpoint["state"]
    shown = state["disabled_because"] or state["circuit"]
    return {**endpoint, "state": shown, "failing_since": state["failing_since"]}

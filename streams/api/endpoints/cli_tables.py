"""What `tidegate endpoints ...` prints for people."""

from __future__ import annotations

from streams.cli.cells import Json, console_of_any_width, print_fields, tell
from streams.cli.lists import listed, page

_ENDPOINTS = ("endpoint_id", "tenant_id", "enabled", "state", "failing_since", "url", "events")
_KEYS = ("kind", "secret_ref", "until", "public_key")
_APART = ("keys", "state", "secret")


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
    tell(f"endpoint {found['endpoint_id']} of tenant {found['tenant_id']} is removed")


def tested(found: Json) -> None:
    """What a test's last attempt met, and how many there were."""
    attempts = found["attempts"]
    done = "is delivered" if found["delivered"] else "is not delivered"
    made = f"{len(attempts)} attempt{'s' if len(attempts) != 1 else ''}"
    tell(f"test {found['delivery_id']} {done} after {made}{_met(attempts[-1]) if attempts else ''}")


def _met(attempt: Json) -> str:
    """What the last attempt got: an answered status with the answer's beginning, or an error."""
    answered = attempt["status"] is not None
    got = f"answered {attempt['status']}" if answered else attempt["error"]
    why = attempt["excerpt"] if answered else attempt["detail"]
    took = f"; the last one: {got} in {attempt['duration_ms']} ms"
    return f"{took}: {why}" if why else took


def _row(endpoint: Json) -> Json:
    state = endpoint["state"]
    shown = state["disabled_because"] or state["circuit"]
    return {**endpoint, "state": shown, "failing_since": state["failing_since"]}


endpoints = page("endpoints", _ENDPOINTS, _row)

"""What `tidegate events list | show` and `tidegate jobs review` print for people."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil

from rich.console import Console

from streams.api.deliveries import cli_tables as delivery_tables
from streams.api.jobs import cli_tables as job_tables
from streams.cli.cells import Json, cell, console_of_any_width, print_fields
from streams.cli.lists import listed, page
from streams.topology.by_value import ATTRIBUTE

_EVENTS = (
    "received_at",
    "event_type",
    "source",
    "tenant_id",
    "subject",
    "size",
    "event_id",
    "job_id",
    "dedup_key",
)
_EFFECTS = (
    "status",
    "tool",
    "key",
    "began_at",
    "repeatable_until",
    "job_status",
    "job_id",
    "error",
)
_OF_ENDED = (
    "of jobs that have ended: until repeatable_until, a replay calls the tool under the same key; "
    "or look at the tool and settle the effect, then replay the job"
)
_ANSWERS = ("if_done", "if_not_done")
_WAYS_ON = {
    "if_mended": "once workers have code that asks for this step",
    "if_kept": "if the code need not ask for it any more",
    "if_dropped": "if its work is to be done again",
}
_IF_DONE = (
    "if the tool has done it; RESULT_AS_JSON is what the handler gets as the call's result, "
    "null if nothing:"
)
_APART = (
    "job",
    "replays",
    "dead_letters",
    "quarantine",
    "duplicates",
    "attributes",
    "route",
    "route_command",
    "awaited_by",
    "deliveries",
    "deliver_again",
)

events = page("events", _EVENTS)


def event(found: Json) -> None:
    """One event, what became of it, and the commands that deliver it again."""
    console = console_of_any_width()
    _event(console, found)
    _say(console, "to deliver it again (`send` says if its vendor needs a --header):")
    for line in found["deliver_again"]:
        _say(console, f"  {line}")


def _event(console: Console, found: Json) -> None:
    """One event, then what became of it: each part only if there is something to say."""
    print_fields(console, {k: v for k, v in found.items() if k not in _APART})
    for name in ("attributes", "duplicates", "quarantine"):
        if found[name]:
            print_fields(console, found[name], name)
    own = [each for each in found["deliveries"] if each["kind"] == "event"]
    delivery_tables.related(console, own)
    if found["job"] is None:
        _without_job(console, found)
    else:
        console.print("its job")
        job_tables.job(found["job"])
    job_tables.replays(console, found["replays"])
    for letter in found["dead_letters"]:
        print_fields(console, {k: v for k, v in letter.items() if k != "replays"}, "dead letter")


def _without_job(console: Console, found: Json) -> None:
    if any(letter["kind"] == "record" for letter in found["dead_letters"]):
        _say(console, "no job: it became a dead letter")
    elif only_cancels(found):
        _say(console, f"no job: {cancelling(found)}")
    elif awaited(found):
        _say(console, f"no job: {awaiting(found)}")
    elif found["routed"]:
        _say(
            console,
            "no job: the dispatcher has not come to it yet, or lacks the route that the "
            "ingress has (start it with the same topology), or the job was purged",
        )
    else:
        _say(console, "no job: no route matched it; once one does, give it its job:")
        _say(console, found["route_command"])


def only_cancels(found: Json) -> bool:
    """Whether the route that matches an event now makes no job."""
    route = found.get("route")
    return route is not None and route["job"] is None


def cancelling(found: Json) -> str:
    """What becomes of an event whose route only cancels."""
    ends = found["route"]["cancels"]
    by, kind = ends["by"], ends["job"]
    if not _has_value(found, by):
        return (
            f"its route makes none, and cancels none of type {kind}, because the event has no "
            f"{by}: map one with `tidegate sources set --mapping`"
        )
    return f"its route makes none, and cancels earlier jobs of type {kind} by {by}"


def _has_value(found: Json, by: str) -> bool:
    """Whether an event has the value by which its route cancels."""
    _, attribute, name = by.partition(ATTRIBUTE)
    return bool(found["attributes"].get(name) if attribute else found["subject"])


def is_meant_without_job(found: Json) -> bool:
    """Whether the topology has a use for an event that makes no job."""
    return only_cancels(found) or awaited(found)


def awaited(found: Json) -> bool:
    """Whether jobs wait for such an event, which no route matches."""
    return found.get("route") is None and bool(found.get("awaited_by"))


def awaiting(found: Json) -> str:
    """What becomes of an event that no route matches and jobs wait for."""
    types = ", ".join(found["awaited_by"])
    return f"no route matches it; jobs of type {types} that wait for such an event go on with it"


def review(found: Json) -> None:
    """What waits for a person's answer, then effects whose jobs have ended."""
    console = console_of_any_width()
    if not (found["review"] or found["diverged"]):
        _say(console, "no effect waits for an answer; after a kill, look again in some seconds")
    for effect in found["review"]:
        shown = {k: v for k, v in effect.items() if k not in _ANSWERS}
        print_fields(console, shown | {"settle_after": _with_wait(effect["settle_after"])})
        _say_answers(console, effect)
    for job in found["diverged"]:
        print_fields(console, {k: v for k, v in job.items() if k not in _WAYS_ON})
        for way, means in _WAYS_ON.items():
            _say(console, f"{means}:\n  {job[way]}")
    if found["next_cursor"]:
        _say(console, f"more: --cursor {found['next_cursor']}")
    if found["lost"]:
        _say(console, _OF_ENDED)
        listed(found["lost"], _EFFECTS, None)
        for effect in (each for each in found["lost"] if each["if_done"]):
            _say(console, f"\njob {effect['job_id']}, {effect['action']}:")
            _say_answers(console, effect)
    if found["more_lost"]:
        _say(console, "more of these: raise --limit, or give --tenant")


def _say_answers(console: Console, effect: Json) -> None:
    _say(console, _IF_DONE)
    _say(console, f"  {effect['if_done']}")
    _say(console, "if the tool has not done it:")
    _say(console, f"  {effect['if_not_done']}\n")


def _with_wait(time: str) -> str:
    """A time with how long it is until then: `2026-11-23T20:00:00.000Z (in 40 s)`."""
    left = (datetime.fromisoformat(time) - datetime.now(UTC)).total_seconds()
    return f"{time} (in {ceil(left)} s)" if left > 0 else f"{time} (now)"


def _say(console: Console, text: str) -> None:
    # People copy these lines: never wrap them, and let nothing in them act as markup.
    console.print(cell(text), soft_wrap=True, highlight=False)


duplicates = page(
    "duplicates",
    (
        *("count", "event_type", "source", "tenant_id"),
        *("last_at", "first_at", "last_event_id", "fingerprint"),
    ),
)

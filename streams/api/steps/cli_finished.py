"""What finished steps and waits of a job left, as people read it; `--json` has all of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streams.cli.cells import Json, plain
from streams.serde.step_ids import shown_id

_PASSED = "passed"
"""The kind of the note how far a dropped wait had got, which says nothing to people."""


def left_by_name(steps: Sequence[Json]) -> Json:
    """What each step and wait left, by the name that people know."""
    return {shown_id(step["name"]): _left(step) for step in steps if step["kind"] != _PASSED}


def told(steps: Sequence[Json]) -> Iterator[str]:
    """A few words on each: a step's name, and what a wait gave."""
    for step in steps:
        name = shown_id(step["name"])
        match step["kind"]:
            case "event" | "time" | "approval" | "first":
                yield f"{name}: {plain(_left(step))}"
            case kind if kind != _PASSED:
                yield f"{kind} {name}"


def _left(step: Json) -> object:
    value = step["value"]
    match step["kind"]:
        case _ if step["error"]:
            return step["error"]
        case "event":
            return f"{value['event']['event_type']} {value['event']['event_id']}"
        case "time":
            return "its time came"
        case "approval":
            return _decision(value)
        case _:
            return value


def _decision(value: Json) -> str:
    decided = "approved" if value["approved"] else "rejected"
    by = f" by {value['by']}" if value["by"] else ""
    edited = ", with an edit" if value["edit"] else ""
    return f"{decided}{by}{edited}" + (f": {value['note']}" if value["note"] else "")

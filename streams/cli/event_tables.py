"""What `tidegate events list | show` and `tidegate jobs review` print for people."""

from __future__ import annotations

import shlex
from typing import Any

from rich.console import Console

from streams.cli import tables
from streams.cli.tables import Json, console_of_any_width, listed, print_fields

_EVENTS = (
    "event_id", "tenant_id", "source", "event_type", "received_at", "job_id", "size", "subject",
    "dedup_key",
)  # fmt: skip
_EFFECTS = ("job_id", "tool", "key", "status", "began_at", "job_status", "error")
_ANSWERS = ("if_done", "if_not_done")
_APART = ("job", "replays", "dead_letters", "quarantine", "duplicates", "attributes")


def events(found: Json) -> None:
    """A page of events."""
    listed(found["events"], _EVENTS, found["next_cursor"])


def event(found: Json) -> None:
    """One event, then what became of it: each part only if there is something to say."""
    console = console_of_any_width()
    print_fields(console, {k: v for k, v in found.items() if k not in _APART})
    for name in ("attributes", "duplicates", "quarantine"):
        if found[name]:
            print_fields(console, found[name], name)
    if found["job"] is None:
        _say(console, "no job: no route matched it; once one does, give it its job:")
        _say(console, route_command(found))
        return
    console.print("its job")
    tables.job(found["job"])
    tables.replays(console, found["replays"])
    for letter in found["dead_letters"]:
        print_fields(console, {k: v for k, v in letter.items() if k != "replays"}, "dead letter")


def route_command(found: Json) -> str:
    """The command that gives an event its job, to be pasted into a shell."""
    return shlex.join([
        "tidegate", "events", "route", "--tenant", found["tenant_id"],
        "--source", found["source"], "--dedup-key", found["dedup_key"],
        "--note", "a route matches it now",
    ])  # fmt: skip


def review(found: Json) -> None:
    """Effects that wait for a person's answer, then those that cannot be settled."""
    console = console_of_any_width()
    if not found["review"]:
        _say(console, "no effect waits for an answer")
    for effect in found["review"]:
        print_fields(
            console, {k: v for k, v in effect.items() if k not in ("if_done", "if_not_done")}
        )
        _say(console, "if the tool has done it (null: the result that the handler gets):")
        _say(console, f"  {effect['if_done']}")
        _say(console, "if the tool has not done it:")
        _say(console, f"  {effect['if_not_done']}\n")
    if found["next_cursor"]:
        _say(console, f"more: --cursor {found['next_cursor']}")
    if found["lost"]:
        _say(console, "cannot be settled, because the job has ended; look at the tool")
        listed(found["lost"], _EFFECTS, None)
    if found["more_lost"]:
        _say(console, "more of these: raise --limit, or give --tenant")


def settle_commands(job_id: str, action: str) -> dict[str, Any]:
    """The two answers to an unknown effect, as commands to be pasted into a shell."""
    settle = ["tidegate", "jobs", "settle", job_id, action]
    return {
        "if_done": shlex.join([*settle, "--done", "RESULT_AS_JSON", "--note", "the tool shows it"]),
        "if_not_done": shlex.join([*settle, "--not-done", "--note", "the tool does not show it"]),
    }


def _say(console: Console, text: str) -> None:
    # People copy these lines: never wrap them, and let nothing in them act as markup.
    console.print(tables.cell(text), soft_wrap=True, highlight=False)

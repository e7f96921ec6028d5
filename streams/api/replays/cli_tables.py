"""What `tidegate events replay` and `tidegate replays ...` print for people."""

from __future__ import annotations

from streams.cli.cells import Json, cell, columns, console_of_any_width, print_fields
from streams.cli.lists import listed, page

_REPLAYS = ("status", "events", "jobs", "seconds_left", "asked_at", "replay_id", "note")
_SAMPLES = ("event_type", "subject", "tenant_id", "at", "job", "skipped", "event_id")
_COUNTS = ("by_type", "by_day", "jobs_by_type", "skipped")
_APART = (*_COUNTS, "selection", "skipped_samples", "samples", "notes", "warning", "dry_run")

replays = page("replays", _REPLAYS)


def replay(found: Json) -> None:
    """One replay, what it selects, what it has made, and what got no job."""
    _show(found)
    if found["skipped_samples"]:
        listed(found["skipped_samples"], ("reason", "event_id"), None)


def preview(found: Json) -> None:
    _show(found)
    if found["samples"]:
        listed(found["samples"], _SAMPLES, None)


def _show(found: Json) -> None:
    console = console_of_any_width()
    print_fields(console, {k: v for k, v in found.items() if k not in _APART})
    chosen = {k: v for k, v in found["selection"].items() if v not in (None, [])}
    print_fields(console, chosen, "selection")
    for name in _COUNTS:
        if counts := found.get(name):
            table = columns(name.replace("_", " "), "jobs" if name == "jobs_by_type" else "events")
            table.columns[1].justify = "right"
            for each, count in counts.items():
                table.add_row(cell(each), f"{count:,}")
            console.print(table)
    for note in found["notes"]:
        console.print(cell(f"note: {note}"), soft_wrap=True, highlight=False)

"""What the commands of the operator's API print for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

Json = dict[str, Any]
Show = Callable[[Json], None]

_HELD = ("reason", "jobs", "since", "partition", "pool", "type", "tenant_id", "detail")
_CAPS = ("limit", "scope", "value", "in_use", "concurrency")
_HISTORY = ("attempt", "kind", "at", "worker_id", "error")
_LEFT_OUT = ("id", "reason", "detail")
_JOBS = ("job_id", "tenant_id", "type", "status", "attempts", "created_at", "last_error")
_DEAD_LETTERS = (
    "id", "tenant_id", "kind", "type", "reason", "attempts", "at", "replayed_at", "detail",
)  # fmt: skip
_QUARANTINED = ("id", "tenant_id", "source", "status", "reason", "received_at", "job_id")
_TENANTS = ("tenant_id", "disabled", "rate", "sources", "updated_at", "display_name")
_SOURCES = ("source", "disabled", "scheme", "secrets", "updated_at", "mapping")
_REJECTIONS = ("last_at", "tenant_id", "source", "reason", "cause", "count", "first_at")
_DUPLICATES = ("fingerprint", "tenant_id", "count", "last_at", "first_at", "last_event_id")

_REPLAYS = ("job_id", "status", "created_at", "submitted_by", "note")

_WHOLE = {
    "event_id", "began_at",
    "id", "fingerprint", "job_id", "last_event_id", "status", "at", "created_at", "received_at",
    "updated_at", "first_at", "last_at", "replayed_at", "since", "jobs", "attempt",
}  # fmt: skip
"""Columns whose values people copy and compare: never wrapped, never cut short."""
_DISPENSABLE = (
    "replayed_at", "attempts", "kind", "worker_id", "partition", "at", "created_at", "received_at",
    "job_id", "last_event_id", "first_at", "size", "dedup_key", "subject",
)  # fmt: skip
"""Columns that a list leaves out if the terminal has no room for them, in this order."""
_TITLES = {"tenant_id": "tenant", "last_error": "error"}
_LEAST = 8
"""How many characters a shortened column keeps."""
_GAP = 2
_ENDLESS = 1_000_000


def jobs(found: Json) -> None:
    """A page of jobs; a succeeded job's error is from an earlier attempt."""
    rows = [{**job, "last_error": None} if job["status"] == "succeeded" else job for job in
            found["jobs"]]  # fmt: skip
    listed(rows, _JOBS, found["next_cursor"])


def dead_letters(found: Json) -> None:
    """A page of dead letters."""
    listed(found["dead_letters"], _DEAD_LETTERS, found["next_cursor"])


def quarantined(found: Json) -> None:
    """A page of quarantined bodies."""
    listed(found["quarantine"], _QUARANTINED, found["next_cursor"])


def quarantined_body(found: Json) -> None:
    """One quarantined body."""
    print_fields(console_of_any_width(), found)


def duplicates(found: Json) -> None:
    """A page of events that were delivered again."""
    listed(found["duplicates"], _DUPLICATES, found["next_cursor"])


def job(found: Json) -> None:
    """One job, then its steps and effects."""
    console = console_of_any_width()
    apart = ("effects", "steps", "history", "held", "waits", "answered")
    print_fields(console, {k: v for k, v in found.items() if k not in apart})
    if waits := found.get("waits"):
        _waits(console, waits)
    elif found["held"]:
        print_fields(console, found["held"], "held: no lease can be made for it")
    if found["history"]:
        console.print("runs that did not succeed")
        listed(found["history"], _HISTORY, None)
    if found["steps"]:
        print_fields(console, {step["name"]: step["value"] for step in found["steps"]}, "steps")
    for effect in found["effects"]:
        print_fields(console, effect, "effect")


def _waits(console: Console, waits: Json) -> None:
    """Why a job waits, then the caps that are reached."""
    print_fields(console, {k: v for k, v in waits.items() if k != "caps"}, "why it waits")
    if waits["caps"]:
        console.print("caps that are reached")
        listed(waits["caps"], _CAPS, None)


def dead_letter(found: Json) -> None:
    """One dead letter, then its replays and its job."""
    console = console_of_any_width()
    print_fields(console, {k: v for k, v in found.items() if k not in ("job", "replays")})
    replays(console, found["replays"])
    if found.get("job"):
        job(found["job"])


def replays(console: Console, made: Sequence[Json]) -> None:
    """The jobs that were made of one job, if any were."""
    if made:
        console.print("replayed as")
        listed(made, _REPLAYS, None)


def replayed(found: Json) -> None:
    """A replay: the new job, the record sent in again, or the result of a bulk replay."""
    if "matched" in found:
        bulk(found)
    elif "history" in found:
        job(found)
    else:
        dead_letter(found)


def moved(found: Json) -> None:
    """A job in its new pool, or the result of moving all."""
    (bulk if "matched" in found else job)(found)


def tenants(found: Json) -> None:
    """A page of tenants."""
    listed([_readable(each) for each in found["tenants"]], _TENANTS, found["next_cursor"])


def tenant(found: Json) -> None:
    """One tenant."""
    print_fields(console_of_any_width(), _readable(found))


def sources(found: Json) -> None:
    """A tenant's sources."""
    listed(found["sources"], _SOURCES, found["next_cursor"])


def source(found: Json) -> None:
    """One source; after a change also its secret, if it was made, and what its vendor calls."""
    print_fields(console_of_any_width(), found)


def rejections(found: Json) -> None:
    """A page of counts of refused deliveries."""
    listed(found["rejections"], _REJECTIONS, found["next_cursor"])


def _readable(found: Json) -> Json:
    rate, names = found.get("rate"), found["sources"]
    shown = None if rate is None else f"{rate['count']}/{rate['seconds']:g}s"
    return {**found, "rate": shown, "sources": ", ".join(names)}


def held(found: Json) -> None:
    """A page of reasons for which jobs wait."""
    listed(found["held"], _HELD, found["next_cursor"])


def bulk(found: Json) -> None:
    """The result of a bulk call: what it did, then what it left out and why."""
    apart = ("left_out", "next_cursor")
    print_fields(console_of_any_width(), {k: v for k, v in found.items() if k not in apart})
    if found.get("left_out"):
        listed(found["left_out"], _LEFT_OUT, None)


def console_of_any_width() -> Console:
    """A console as wide as the terminal; a pipe has no width, so its lines are never cut."""
    console = Console()
    return console if console.is_terminal else Console(width=_ENDLESS)


def listed(items: Sequence[Json], columns: Sequence[str], cursor: str | None) -> None:
    """Print a table with one line for each item, and how to get the next page."""
    console = console_of_any_width()
    if not items:
        console.print("none")
        return
    cells = {column: [_line(column, item.get(column)) for item in items] for column in columns}
    widths = {
        column: max(len(_title(column)), *(cell.cell_len for cell in found))
        for column, found in cells.items()
    }
    shown = _fitting(widths, console.width)
    # A line that is wider than the terminal stays whole: the terminal wraps it.
    console.print(_lines(cells, widths, shown, console.width), crop=False)
    if left_out := [_title(column) for column in columns if column not in shown]:
        console.print(f"no room for: {', '.join(left_out)}; --json shows all", style="dim")
    if cursor:
        console.print(f"more: --cursor {cursor}", soft_wrap=True, markup=False, highlight=False)


def _fitting(widths: Mapping[str, int], room: int) -> list[str]:
    """The columns to show: all, or fewer until they fit."""
    shown = list(widths)
    for column in _DISPENSABLE:
        if _needed(widths, shown) <= room:
            break
        if column in shown[1:]:
            shown.remove(column)
    return shown


def _needed(widths: Mapping[str, int], shown: Sequence[str]) -> int:
    *others, last = shown
    least = widths[last] if last in _WHOLE else min(widths[last], _LEAST)
    return sum(widths[column] + _GAP for column in others) + least


def _lines(
    cells: Mapping[str, Sequence[Text]], widths: Mapping[str, int], shown: Sequence[str], room: int
) -> Table:
    """One line for each item; if it is too long, the last column is shortened first."""
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    *others, last = shown
    left = room - sum(widths[column] + _GAP for column in others)
    for column in shown:
        whole = column in _WHOLE
        table.add_column(
            Text(_title(column), no_wrap=True, overflow="ellipsis"),
            no_wrap=whole,
            min_width=widths[column] if whole else min(widths[column], _LEAST),
            max_width=max(_LEAST, left) if column == last and not whole else None,
        )
    for row in zip(*(cells[column] for column in shown), strict=True):
        table.add_row(*row)
    return table


def _title(column: str) -> str:
    return _TITLES.get(column, column.replace("_", " "))


def _line(column: str, value: Any) -> Text:
    """A one-line cell, with an ellipsis if its column is narrower; times to the second."""
    if value and (column in ("at", "since") or column.endswith("_at")):
        return Text(str(value)[:19].replace("T", " ") + "Z", no_wrap=True)
    return Text(plain(value), no_wrap=True, overflow="ellipsis")


def print_fields(console: Console, item: Json, title: str | None = None) -> None:
    """Print one thing with a line for each of its fields that has a value."""
    console.print(fields(item, title))


def fields(item: Json, title: str | None = None) -> Table:
    """An object's fields below each other, without those that are empty."""
    table = Table(show_header=False, title=title, title_justify="left")
    table.add_column(style="bold", overflow="fold")
    # People copy these values: fold them, never cut them short.
    table.add_column(overflow="fold")
    for name, value in item.items():
        if value not in (None, ""):
            table.add_row(name, cell(value))
    return table


def plain(value: Any) -> str:
    """A value as one line of text that cannot steer a terminal."""
    return " ".join(cell(value).plain.split())


def cell(value: Any) -> Text:
    """Show a value as plain text: what tenants wrote must not act as markup or steer a terminal."""
    if value is None:
        return Text("-")
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return Text("".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text))

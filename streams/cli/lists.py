"""Lists on a terminal: a line for each item, and a second one for what has no room beside it.

Ids, states, reasons and times are never cut, because people copy and compare them. If the terminal
is narrow, columns without any value go first, then texts are cut to 30 characters, then counts are
left out, then whole columns go to the second line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from streams.cli.cells import Json, console_of_any_width, plain

_WHOLE = {
    "id",
    "fingerprint",
    "source",
    "status",
    "reason",
    "jobs",
    "attempt",
    "count",
    "replay_outcome",
    "waits_for",
}
"""Columns whose values are never cut, beside ids and times."""
_DISPENSABLE = (
    "attempts",
    "attempt_count",
    "duration_ms",
    "kind",
    "worker_id",
    "partition",
    "size",
)
"""Columns that are left out if there is no room, in this order; `--json` shows them."""
_BELOW = (
    "waits_for",
    "subject",
    "dedup_key",
    "address",
    "fingerprint",
    "replayed_at",
    "last_event_id",
    "first_at",
    "job_id",
    "id",
    "delivery_id",
    "event_id",
    "replay_id",
    "began_at",
    "ended_at",
    "created_at",
    "at",
    "received_at",
    "updated_at",
    "next_attempt_at",
    "asked_at",
    "last_at",
    "since",
    "tenant_id",
    "source",
)
"""Columns that then go to the second line, in this order, unless they are an item's first."""
_TITLES = {
    "tenant_id": "tenant",
    "last_error": "error",
    "worker_id": "worker",
    "replay_outcome": "replay",
}
_LEAST = 30
"""How many characters a cut column keeps."""
_GAP = 2
_INDENT = 4


def listed(items: Sequence[Json], columns: Sequence[str], cursor: str | None) -> None:
    """Print a list, and how to get the next page."""
    console = console_of_any_width()
    if not items:
        console.print("none")
        return
    rows = [{column: _text(column, item.get(column)) for column in columns} for item in items]
    layout = _layout(rows, columns, console.width)
    # A line that is wider than the terminal stays whole: the terminal wraps it.
    for line in _lines(rows, layout, console.width):
        console.print(line, soft_wrap=True)
    if layout.left_out:
        names = ", ".join(map(_title, layout.left_out))
        console.print(f"no room for: {names}; --json shows all", style="dim")
    if cursor:
        console.print(f"more: --cursor {cursor}", soft_wrap=True, markup=False, highlight=False)


def page(
    name: str, columns: Sequence[str], row: Callable[[Json], Json] = lambda item: item
) -> Callable[[Json], None]:
    """Return what prints a page of the API's list of this name; `row` changes what is shown."""

    def show(found: Json) -> None:
        listed([row(each) for each in found[name]], columns, found["next_cursor"])

    return show


@dataclass(frozen=True, slots=True)
class _Layout:
    """The width of each column beside the first, those on the second line, those left out."""

    beside: Mapping[str, int]
    below: Sequence[str]
    left_out: Sequence[str]


def _layout(rows: Sequence[Mapping[str, Text]], columns: Sequence[str], room: int) -> _Layout:
    widths = {
        column: max(len(_title(column)), *(row[column].cell_len for row in rows))
        for column in columns
    }
    empty = {column for column in columns[1:] if all(row[column].plain == "-" for row in rows)}
    if sum(widths.values()) + _GAP * (len(widths) - 1) > room:
        columns = [column for column in columns if column not in empty]
        widths = {column: widths[column] for column in columns}
    gone = list[str]()
    movable = [column for column in (*_DISPENSABLE, *_BELOW) if column in columns[1:]]
    while movable and _least(widths, gone) > room:
        gone.append(movable.pop(0))
    beside = _cut({column: widths[column] for column in columns if column not in gone}, room)
    below = [column for column in columns if column in gone and column not in _DISPENSABLE]
    return _Layout(beside, below, [each for each in columns if each in gone and each not in below])


def _least(widths: Mapping[str, int], gone: Sequence[str]) -> int:
    """How wide a line is whose texts are cut as far as they may be."""
    kept = [_least_of(column, width) for column, width in widths.items() if column not in gone]
    return sum(kept) + _GAP * (len(kept) - 1)


def _least_of(column: str, width: int) -> int:
    whole = column in _WHOLE or column.endswith("_id") or _is_time(column)
    return width if whole else min(width, _LEAST)


def _cut(widths: dict[str, int], room: int) -> dict[str, int]:
    """The widths of a line that fits: the widest column is cut first."""
    excess = sum(widths.values()) + _GAP * (len(widths) - 1) - room
    for column in sorted(widths, key=widths.__getitem__, reverse=True):
        cut = min(max(excess, 0), widths[column] - _least_of(column, widths[column]))
        widths[column] -= cut
        excess -= cut
    return widths


def _lines(rows: Sequence[Mapping[str, Text]], layout: _Layout, room: int) -> Iterator[Text]:
    titles = {column: Text(_title(column), style="bold") for column in layout.beside}
    yield _beside(titles, layout.beside)
    for row in rows:
        yield _beside(row, layout.beside)
        yield from _below(row, layout.below, room)


def _beside(row: Mapping[str, Text], widths: Mapping[str, int]) -> Text:
    line = Text()
    for column, width in widths.items():
        shown = row[column].copy()
        shown.truncate(width, overflow="ellipsis")
        line.append_text(shown).append(" " * (width - shown.cell_len + _GAP))
    line.rstrip()
    return line


def _below(row: Mapping[str, Text], columns: Sequence[str], room: int) -> Iterator[Text]:
    """The values that have no room beside the others, each after its title."""
    line = Text()
    for column in columns:
        if row[column].plain == "-":
            continue
        named = Text(f"{_title(column)} ", style="dim").append_text(row[column])
        if line and line.cell_len + _GAP + named.cell_len > room:
            yield line
            line = Text()
        line.append(" " * (_GAP if line else _INDENT)).append_text(named)
    if line:
        yield line


def _is_time(column: str) -> bool:
    return column in ("at", "since", "until") or column.endswith("_at")


def _title(column: str) -> str:
    return _TITLES.get(column, column.replace("_", " "))


def _text(column: str, value: Any) -> Text:
    """A value on one line; times to the second, and of a worker's id the process's name."""
    if value and column == "worker_id":
        value = str(value).partition("/")[0]
    if value and _is_time(column):
        return Text(str(value)[:19].replace("T", " ") + "Z")
    return Text(plain(value))

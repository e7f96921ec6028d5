"""How the overview looks in a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from streams.cli.cells import cell, columns
from streams.cli.operator_command import Answer, Api
from streams.cli.sparkline import sparkline

_COMMANDS = {
    "dead_letters": "dlq list --not-replayed",
    "manual_work": "dlq list --manual",
    "reviews": "jobs review",
    "unknown_effects": "jobs review",
    "approvals": "approvals list --status pending",
    "held": "jobs held",
    "paused": "limits list",
    "full_backlogs": "jobs backlog",
    "quarantined": "quarantine list --status waiting",
    "open_breakers": "limits list",
    "open_circuits": "endpoints list --state cut_off",
    "failing_endpoints": "endpoints list --state failing",
    "parked_deliveries": "deliveries list --status parked",
    "stopped_bulk_acts": "bulk list",
}
"""The words of the command that lists what is counted."""
_LATE_SECONDS = 10.0
_TENTHS_FROM = 10
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def view(found: Answer, api: Api, trouble: str = "") -> RenderableType:
    """The overview: the flow, what waits for a person, and the last hour.

    `trouble` says why these numbers are not new.
    """
    return Group(
        _head(found, api.url, trouble),
        Text(),
        flow(found["flow"]["stages"]),
        Text(),
        *attention(found["attention"]["counts"], api),
        Text(),
        *hour(found["minutes"]["series"]),
    )


def flow(stages: list[Answer]) -> Table:
    """The stages in the order of the flow, each with how late its oldest is."""
    table = columns("stage")
    for name in ("a second", "here now", "oldest", "late by"):
        table.add_column(name, justify="right")
    for stage in stages:
        late = stage["lag_seconds"]
        style = "yellow" if late is not None and late >= _LATE_SECONDS else ""
        table.add_row(
            cell(stage["name"]),
            cell("-" if stage["rate"] is None else _rate(stage["rate"])),
            cell("-" if stage["count"] is None else number(stage["count"], stage["more"])),
            cell(_clock(stage["oldest_at"])),
            cell("-" if late is None else span(late)),
            style=style,
        )
    return table


def attention(counts: list[Answer], api: Api) -> Iterator[RenderableType]:
    """What waits for a person, each with the command that lists it; then what does not."""
    table, nothing = columns("waits for a person", "", "see"), list[str]()
    for each in counts:
        name = each["name"].replace("_", " ")
        if each["count"] or each["more"]:
            words = _COMMANDS.get(each["name"])
            shown = each["list"] if words is None else api.command(*words.split())
            counted = number(each["count"], each["more"])
            table.add_row(cell(name), Text(counted, style="bold yellow"), cell(shown))
        else:
            nothing.append(name)
    yield from _with_nothing(table, nothing)


def hour(series: dict[str, list[int]]) -> Iterator[RenderableType]:
    """The last hour: a bar for two minutes, the sum, and the present minute; then what is 0."""
    table, nothing = columns("last hour", ""), list[str]()
    table.add_column("in all", justify="right")
    table.add_column("this minute", justify="right")
    for each, values in series.items():
        name = each.replace("_", " ")
        if any(values):
            shown = name, sparkline(values), f"{sum(values):,}", f"{values[-1]:,}"
            table.add_row(*map(cell, shown))
        else:
            nothing.append(name)
    yield from _with_nothing(table, nothing)


def number(count: int, more: bool) -> str:
    """A count; with `+` if there may be more."""
    return f"{count:,}{'+' if more else ''}"


def span(seconds: float) -> str:
    """A time span in the unit in which it is read at a glance."""
    if seconds < _MINUTE:
        return f"{seconds:.1f} s" if seconds else "0 s"
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}"
    return ""


def _with_nothing(table: Table, nothing: list[str]) -> Iterator[RenderableType]:
    """A table, and in one line what has no row in it."""
    yield table
    if nothing:
        yield Text.assemble("none: ", cell(", ".join(nothing)), style="dim")


def _rate(rate: float) -> str:
    return f"{rate:,.2f}" if rate < _TENTHS_FROM else f"{rate:,.1f}"


def _head(found: Answer, url: str, trouble: str) -> Text:
    behind = found["behind_seconds"]
    age = "being read" if behind is None else f"{span(behind)} old"
    head = Text.assemble(
        ("tidegate top", "bold"), "  ", cell(url), "  ", cell(found["at"]), f"  numbers {age}"
    )
    if trouble:
        head.append_text(Text.assemble("\n", ("trying on: ", "bold yellow"), cell(trouble)))
    return head


def _clock(moment: str | None) -> str | None:
    """The time of day of an RFC 3339 time, as the operator gives it."""
    return None if moment is None else moment[:19] + "Z"

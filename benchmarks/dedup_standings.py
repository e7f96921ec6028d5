"""The rows of the dedup contest, as a table and as results."""

from __future__ import annotations

from collections.abc import Sequence

from dedup_contenders import TIDEGATE, Row
from harness import Result, machine
from rich.console import Console
from rich.table import Table

WIDTH = 120
"""Columns at least, also where the output is no terminal: a wrapped row is hard to read."""


def median(rounds: Sequence[Row]) -> Row:
    """Of one contender's rounds the one of median speed, of two the slower; or one that is void."""
    for row in rounds:
        if row.speed is None or row.void:
            return row
    return sorted(rounds, key=lambda row: row.speed.rate if row.speed else 0)[
        (len(rounds) - 1) // 2
    ]


def show(benchmark: str, rows: Sequence[Row]) -> None:
    """Print a line for each row; a void one shows no speed."""
    if not rows:
        return
    table = Table(title=f"{benchmark}, one process ({machine()})")
    for column in ("", "promise", "events", "events/s", "ours is", "CPU us/event", "peak MiB"):
        table.add_column(column, justify="left" if column in {"", "promise"} else "right")
    table.add_column("output")
    ours = _ours(rows)
    for row in rows:
        table.add_row(row.name, row.promise, f"{row.events:,}", *_cells(row, ours), row.verdict)
    Console(width=max(WIDTH, Console().width)).print(table)


def results(rows: Sequence[Row]) -> list[Result]:
    """The same, one result a figure; of a void row only that it is."""
    ours, found = _ours(rows), []
    for row in rows:
        found.append(Result(row.name, "void", float(row.void), "rows"))
        if row.faults is not None:
            found += [
                Result(row.name, what, number, "events")
                for what, number in vars(row.faults).items()
            ]
        if row.speed is None or row.void:
            continue
        found += [
            Result(row.name, f"throughput, {row.promise}", row.speed.rate, "events/s"),
            Result(row.name, "processor time", row.speed.cpu_us, "us/event"),
            Result(row.name, "peak resident", row.speed.peak_mib, "MiB"),
        ]
        if ours:
            found.append(Result(row.name, "tidegate is faster", ours / row.speed.rate, "times"))
    return found


def _cells(row: Row, ours: float | None) -> tuple[str, str, str, str]:
    if row.speed is None or row.void:
        return ("-",) * 4
    ratio = f"{ours / row.speed.rate:.1f} x" if ours else "-"
    speed = row.speed
    return f"{speed.rate:,.0f}", ratio, f"{speed.cpu_us:.1f}", f"{speed.peak_mib:,.0f}"


def _ours(rows: Sequence[Row]) -> float | None:
    """Our events a second, if we ran and the row counts."""
    for row in rows:
        if row.name == TIDEGATE.name and row.speed is not None and not row.void:
            return row.speed.rate
    return None

"""The figures of bench_jobs as tables: speed, processor time by component, what is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from harness import Result, machine
from jobs_standings import ASKED, FAULTS, HOP, IDLE, LOADS, OF_IT, OTHERS, PROCESSOR, START
from rich.console import Console
from rich.table import Table

WIDTH = 120
"""Columns at least, also where the output is no terminal: a wrapped row is hard to read."""

Found = dict[tuple[str, str], float]


def show(results: Sequence[Result]) -> None:
    """Print all of them."""
    found = {(result.contender, result.metric): result.value for result in results}
    names = list(dict.fromkeys(r.contender for r in results if r.metric == FAULTS))
    console = Console(width=max(WIDTH, Console().width))
    for table in (_speed(names, found), _processor(names, found), _asked(names, found)):
        if table.row_count:
            console.print(table)


def _speed(names: Sequence[str], found: Found) -> Table:
    table = Table(title=f"jobs ({machine()})")
    rates = [load for load in LOADS if load.endswith("/s")]
    starts = [f"start ms, {rate}" for rate in rates]
    for column in ("", "no-op/s", "one effect/s", *starts, "idle ms/s", "wrong"):
        table.add_column(column, justify="right" if column else "left", no_wrap=not column)
    for name in names:
        table.add_row(
            name,
            *(_cell(found.get((name, load))) for load in ("no-op", "one effect")),
            *(_pair(found, name, f"{rate}, {START}") for rate in rates),
            _cell(found.get((name, IDLE))),
            _cell(found.get((name, FAULTS))),
        )
    if (HOP, "sent to read p50") in found:
        table.caption = f"starts: p50, p99; {HOP}: {_pair(found, HOP, 'sent to read')} ms"
    return table


def _processor(names: Sequence[str], found: Found) -> Table:
    """A row for each load of a contender, its components in one cell."""
    table = Table(title=f"processor time: us/job, {IDLE} ms/s; cores {OTHERS}")
    for column in ("", "load", "others", "in all", "of it"):
        justify: Literal["right", "left"] = "right" if column in {"others", "in all"} else "left"
        table.add_column(column, justify=justify, no_wrap=column != "of it")
    for name in names:
        for load in (*LOADS, IDLE):
            total = found.get((name, IDLE if load == IDLE else f"{load}, {PROCESSOR}"))
            of_it = f"{load}, {OF_IT}"
            parts = [
                f"{metric.removeprefix(of_it)} {value:,.0f}"
                for (contender, metric), value in found.items()
                if contender == name and metric.startswith(of_it)
            ]
            if total is not None:
                others = found.get((name, f"{load}, {OTHERS}"))
                busy = "-" if others is None else f"{others:.1f}"
                table.add_row(name, load, busy, _cell(total), ", ".join(parts))
    return table


def _asked(names: Sequence[str], found: Found) -> Table:
    table = Table(title="asked for")
    for column in ("", "figure", "reached", "asked", ""):
        table.add_column(column, justify="right" if column == "reached" else "left")
    for name in names:
        for asked in ASKED:
            value = found.get((name, asked.name))
            if value is not None:
                verdict = "reached" if asked.reached(value) else "MISSED"
                table.add_row(name, asked.name, f"{value:,.2f} {asked.unit}", asked.words, verdict)
    return table


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _pair(found: Found, name: str, metric: str) -> str:
    p50, p99 = (found.get((name, f"{metric} {cut}")) for cut in ("p50", "p99"))
    return "-" if p50 is None or p99 is None else f"{p50:,.1f}, {p99:,.0f}"

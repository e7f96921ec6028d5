"""The tables: every figure for a terminal, and those of docs/compared.md and of the README."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from peers.every import EVERY
from peers.rows import Standings

Column = tuple[str, tuple[str, ...]]
"""Its title, and the metrics that stand in one cell."""

_PROCESSOR = "processor time"
_NONE = "-"
SPEED: tuple[Column, ...] = (
    ("no-op jobs/s", ("no-op",)),
    ("one effect, jobs/s", ("one effect",)),
    ("storm, webhooks/s", ("storm",)),
    ("parked/s", ("waits, parked",)),
    ("woken/s", ("waits, woken",)),
    ("fan-out of 1,000, s", ("fan-out of 1,000",)),
)
COST: tuple[Column, ...] = (
    ("no-op, us/job", (f"no-op, {_PROCESSOR}",)),
    ("at 50/s, us/job", (f"50/s, {_PROCESSOR}",)),
    ("at 400/s, us/job", (f"400/s, {_PROCESSOR}",)),
    ("one effect, us/job", (f"one effect, {_PROCESSOR}",)),
    ("storm, us/webhook", (f"storm, {_PROCESSOR}",)),
    ("park and wake, us/job", (f"waits, {_PROCESSOR}",)),
    ("fan-out, us/job", (f"fan-out, {_PROCESSOR}",)),
    ("idle, ms/s", ("idle",)),
    ("resident, MiB", ("resident",)),
)
STARTS: tuple[Column, ...] = tuple(
    (
        f"start at {rate}/s, ms",
        (f"{rate}/s, answer to handler p50", f"{rate}/s, answer to handler p99"),
    )
    for rate in (50, 200, 400)
)
_OF_SO_MANY = {"2,000": "waits", "20,000": "20,000 waits", "100,000": "100,000 waits"}
WAITS: tuple[Column, ...] = (
    ("parked/s of 20,000", ("20,000 waits, parked",)),
    ("woken/s of 20,000", ("20,000 waits, woken",)),
    ("park and wake, us/job", (f"20,000 waits, {_PROCESSOR}",)),
    *(
        (f"wake beside {many}, ms", (f"{title}, wake at 50/s p50", f"{title}, wake at 50/s p99"))
        for many, title in _OF_SO_MANY.items()
    ),
    ("resident before, MiB", ("waits, resident before",)),
    *(
        (f"more with {many}, MiB", (f"{title}, more resident",))
        for many, title in _OF_SO_MANY.items()
    ),
)
KILLS: tuple[Column, ...] = (
    ("webhooks sent", ("kills, sent",)),
    *((what, (f"kills, {what}",)) for what in ("lost", "doubled effects", "stuck", "run again")),
    *(
        (f"moves after {role}, s", (f"kills, moves again after {role}",))
        for role in ("worker", "server", "store", "front")
    ),
)
TENANTS: tuple[Column, ...] = (
    ("no-op jobs/s of 20", ("20 tenants",)),
    ("of 2,000", ("2,000 tenants",)),
    ("us/job of 20", (f"20 tenants, {_PROCESSOR}",)),
    ("us/job of 2,000", (f"2,000 tenants, {_PROCESSOR}",)),
    ("resident, MiB", ("2,000 tenants, resident",)),
)
_FAULTS = ("lost", "doubled effects", "stuck")
CUT_OFF: tuple[Column, ...] = tuple(
    (f"by {role}", tuple(f"kills, {what}, of it after {role}" for what in _FAULTS))
    for role in ("worker", "server", "store", "front")
)
FIRST: tuple[Column, ...] = (
    *SPEED[:2],
    ("one effect, us/job", (f"one effect, {_PROCESSOR}",)),
    STARTS[0],
    *KILLS[1:4],
)
DRAWN: Mapping[str, tuple[Column, ...]] = {
    "speed": SPEED,
    "cost": COST,
    "starts": STARTS,
    "waits": WAITS,
    "tenants": TENANTS,
    "kills": KILLS,
    "cut off": CUT_OFF,
    "first": FIRST,
}
"""By the name of the marker between which a table is drawn."""
PARTS: Mapping[str, str] = {
    "no-op, us/job": "no-op",
    "one effect, us/job": "one effect",
    "idle, ms/s": "idle",
    "resident, MiB": "resident",
}
"""For each column of the table of processes the work."""


@dataclass(frozen=True)
class Grid:
    """One table, its cells as text."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        lines = ["| " + " | ".join(row) + " |" for row in (self.head, *self.rows)]
        return "\n".join([lines[0], "|---" * len(self.head) + "|", *lines[1:]])


def grid(found: Standings, columns: Sequence[Column]) -> Grid:
    """A row for each peer, or setting that is tried, that has a figure."""
    names = dict.fromkeys([*EVERY, *(each.contender for each in found.results)])
    cells = {name: [_cell(found, name, metrics) for _, metrics in columns] for name in names}
    rows = [[name, *row] for name, row in cells.items() if set(row) != {_NONE}]
    return Grid(["", *(title for title, _ in columns)], rows)


def conditions(found: Standings) -> Grid:
    """What each peer ran with."""
    rows = [
        [name, EVERY[name].licence, found.versions[name], EVERY[name].keeps, _settings(name)]
        for name in EVERY
        if name in found.versions
    ]
    return Grid(["", "licence", "versions", "an answered webhook survives", "settings"], rows)


def parts(found: Standings) -> Grid:
    """What the processes of each peer take."""
    cells = {name: [_by_part(found, name, work) for work in PARTS.values()] for name in EVERY}
    return Grid(["", *PARTS], [[name, *row] for name, row in cells.items()])


def _by_part(found: Standings, peer: str, work: str) -> str:
    """The figure of each process, those of several workers together."""
    before, figures = f"{work}, of it ", Counter[str]()
    for each in found.results:
        if each.contender == peer and each.metric.startswith(before):
            figures[each.metric.removeprefix(before).rstrip("-0123456789")] += round(each.value)
    return ", ".join(f"{part} {value:,}" for part, value in figures.items())


def draw(page: Path, found: Standings) -> None:
    """Write the tables of a page anew, each between its markers `<!-- peers: NAME -->`."""
    text = page.read_text()
    for name, columns in DRAWN.items():
        text = _between(text, name, grid(found, columns).markdown())
    text = _between(text, "parts", parts(found).markdown())
    text = _between(text, "conditions", conditions(found).markdown())
    said = "\n".join(f"- {run.when}" for run in found.runs)
    page.write_text(_between(text, "when", said))


def show(found: Standings) -> None:
    """Print every table, then every figure that is wrong."""
    console = Console(width=max(160, Console().width))
    for name, columns in DRAWN.items():
        drawn = grid(found, columns)
        if name != "first" and drawn.rows:
            console.print(_rich(name, drawn))
    for each in found.results:
        if each.metric.endswith("wrong") and each.value:
            console.print(f"{each.contender}: {each.metric}: {each.value:,.0f} {each.unit}")


def _rich(title: str, drawn: Grid) -> Table:
    table = Table(title=title)
    for column in drawn.head:
        table.add_column(column, justify="right" if column else "left", no_wrap=not column)
    for row in drawn.rows:
        table.add_row(*row)
    return table


def _between(text: str, name: str, drawn: str) -> str:
    start, end = f"<!-- peers: {name} -->", f"<!-- /peers: {name} -->"
    if start not in text:
        return text
    before, _, rest = text.partition(start)
    _, _, after = rest.partition(end)
    return f"{before}{start}\n{drawn}\n{end}{after}"


def _cell(found: Standings, peer: str, metrics: Sequence[str]) -> str:
    values = [found.of(peer, metric) for metric in metrics]
    return _NONE if None in values else ", ".join(_number(v) for v in values if v is not None)


def _number(value: float) -> str:
    return f"{value:,.1f}" if value < 100 and value != int(value) else f"{value:,.0f}"


def _settings(name: str) -> str:
    return ", ".join(f"`{key}={value}`" for key, value in EVERY[name].settings.items())

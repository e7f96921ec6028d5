"""The tables, for a terminal and for docs/compared.md."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from peers.rows import Standings


def show(found: Standings) -> None:
    """Print every figure, a row for each."""
    table = Table(title=f"{found.command} ({found.machine}, {found.date})")
    for column in ("peer", "figure", "value", "unit"):
        table.add_column(column, justify="right" if column == "value" else "left")
    for each in found.results:
        if ", of it " not in each.metric:
            table.add_row(each.contender, each.metric, f"{each.value:,}", each.unit)
    Console(width=120).print(table)

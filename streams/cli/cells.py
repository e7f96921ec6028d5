"""How values and objects are printed for people: as plain text that cannot steer a terminal."""

from __future__ import annotations

import sys
from typing import Any

import orjson
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from streams.cli.terminal_text import harmless

Json = dict[str, Any]

_ENDLESS = 1_000_000
_BLOCK_CHARS = 4_200
"""As much of one value as is read on a screen; a traceback is always whole."""


def console_of_any_width() -> Console:
    """A console as wide as the terminal; a pipe has no width, so its lines are never cut."""
    console = Console()
    return console if console.is_terminal else Console(width=_ENDLESS)


def print_fields(console: Console, item: Json, title: str | None = None) -> None:
    """Print one thing with a line for each of its fields that has a value."""
    console.print(fields(item, title))


def columns(*titles: str) -> Table:
    """A table without rows yet."""
    return Table(*titles, box=None, pad_edge=False, header_style="bold")


def fields(item: Json, title: str | None = None) -> Table:
    """An object's fields below each other, without those that are empty."""
    table = Table(box=None, pad_edge=False, show_header=False, title=title, title_justify="left")
    table.add_column(style="bold", overflow="fold")
    # People copy these values: fold them, never cut them short.
    table.add_column(overflow="fold")
    for name, value in item.items():
        if value not in (None, ""):
            table.add_row(name, cell(value))
    return table


def print_block(console: Console, title: str, value: Any) -> None:
    """Print a long value below its title; a very long one is cut, and says so."""
    text = cell(value)
    more = len(text) - _BLOCK_CHARS
    console.print(Text(title, style="bold"))
    console.print(text[:_BLOCK_CHARS], soft_wrap=True)
    if more > 0:
        console.print(f"[{more} more characters: --json shows all]", style="dim", markup=False)


def progress_bar(text: str) -> Progress:
    """A bar on a terminal's standard error; disabled elsewhere. It is gone at its end."""
    return Progress(
        TextColumn(text),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def tell(text: str) -> None:
    """Print one line, which nothing wraps: people copy the ids in it."""
    console_of_any_width().print(Text(plain(text)), soft_wrap=True)


def plain(value: Any) -> str:
    """A value as one line of text that cannot steer a terminal."""
    return " ".join(cell(value).plain.split())


def cell(value: Any) -> Text:
    """Show a value as plain text: what tenants wrote must not act as markup or steer a terminal."""
    if value is None:
        return Text("-")
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return Text(harmless(text))

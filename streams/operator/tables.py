"""What `tidegate jobs`, `dlq` and `quarantine` print for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

Json = dict[str, Any]
Show = Callable[[Json], None]

_JOBS = ("job_id", "tenant_id", "type", "status", "attempts", "created_at", "last_error")
_DEAD_LETTERS = ("id", "tenant_id", "kind", "type", "reason", "attempts", "at", "detail")
_QUARANTINED = ("id", "tenant_id", "source", "status", "reason", "received_at", "job_id")
_EFFECTS = ("action", "status", "claims", "idempotency_key", "result", "error", "updated_at")


def jobs(found: Json) -> None:
    """A page of jobs."""
    _list(found["jobs"], _JOBS, found["next_cursor"])


def dead_letters(found: Json) -> None:
    """A page of dead letters."""
    _list(found["dead_letters"], _DEAD_LETTERS, found["next_cursor"])


def quarantined(found: Json) -> None:
    """A page of quarantined bodies."""
    _list(found["quarantine"], _QUARANTINED, found["next_cursor"])


def quarantined_body(found: Json) -> None:
    """One quarantined body."""
    _fields(Console(), found)


def job(found: Json) -> None:
    """One job, then its steps and effects."""
    console = Console()
    _fields(console, {k: v for k, v in found.items() if k not in ("effects", "steps")})
    if found["steps"]:
        console.print(_table(("name", "value"), found["steps"], "steps"))
    if found["effects"]:
        console.print(_table(_EFFECTS, found["effects"], "effects"))


def dead_letter(found: Json) -> None:
    """One dead letter, then its job."""
    _fields(Console(), {k: v for k, v in found.items() if k != "job"})
    if found.get("job"):
        job(found["job"])


def _list(items: Sequence[Json], columns: Sequence[str], cursor: str | None) -> None:
    console = Console()
    console.print(_table(columns, items))
    if cursor:
        console.print(f"more: --cursor {cursor}", soft_wrap=True, markup=False, highlight=False)


def _table(columns: Sequence[str], items: Iterable[Json], title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        # An id is there to be copied: it is folded, never cut short.
        table.add_column(column.replace("_", " "), overflow="fold")
    for item in items:
        table.add_row(*(_cell(item.get(column)) for column in columns))
    return table


def _fields(console: Console, item: Json) -> None:
    table = Table(show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in item.items():
        if value not in (None, ""):
            table.add_row(name, _cell(value))
    console.print(table)


def _cell(value: Any) -> Text:
    """As plain text: what tenants wrote is no markup and steers no terminal."""
    if value is None:
        return Text("-")
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return Text("".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text))

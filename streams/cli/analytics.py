"""`tidegate analytics top`: the busiest sources and types in a terminal, with sparklines.

The group's own command, `tidegate analytics`, runs the stage (`streams/cli/main.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from streams.cli.api_client import NoAnswer
from streams.cli.cells import cell, columns, console_of_any_width, plain
from streams.cli.operator_command import Answer, Api, print_json, program
from streams.cli.options import AsJson, Tenant
from streams.cli.quantities import moment
from streams.cli.sparkline import sparkline
from streams.serde.job_states import SUCCEEDED

analytics = typer.Typer()

_BETWEEN_LOOKS = 2.0


def top(
    api: Api,
    tenant: Tenant = None,
    since: Annotated[
        str, typer.Option(help="From this time on, or so long ago; 7d at most.", metavar="TIME")
    ] = "1h",
    limit: Annotated[int, typer.Option(min=1, max=200, help="At most so many.", metavar="N")] = 20,
    watch: Annotated[bool, typer.Option("--watch", help="Look again every 2 seconds.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show which tenants' sources and types get the most deliveries, and how their jobs end.

    The sparkline has the deliveries from then till now, redeliveries among them.

    Example: tidegate analytics top --tenant acme --since 24h --watch
    """

    def look() -> Answer:
        begin = moment(since, "--since")
        return api.get("/v1/analytics/top", tenant_id=tenant, since=begin, limit=limit)

    if as_json:
        print_json(look())
    elif watch:
        _watch(look)
    else:
        console_of_any_width().print(view(look()))
    return 0


analytics.command("top")(program(top))


def _watch(look: Callable[[], Answer]) -> None:
    """Look again and again; the last table stays while the API does not answer."""
    table = shown = view(look())
    with Live(shown, console=console_of_any_width(), auto_refresh=False) as live:
        while True:
            time.sleep(_BETWEEN_LOOKS)
            try:
                table = shown = view(look())
            except NoAnswer as error:
                shown = Group(table, Text(f"trying on: {plain(str(error))}", style="dim"))
            live.update(shown, refresh=True)


def view(found: Answer) -> RenderableType:
    """The rows of an answer as a table."""
    table = columns()
    table.add_column("tenant")
    table.add_column("source")
    table.add_column("type")
    table.add_column("deliveries")
    for name in ("events", "again", "subjects", "ended", "not well", "p50", "p99"):
        table.add_column(name, justify="right")
    for row in found["rows"]:
        table.add_row(*map(cell, _cells(row)))
    notes = [f"{len(found['rows'])} of {found['of']}, {found['since']} to {found['until']}"]
    if found["missing"]:
        notes.append(f"not counted here: {', '.join(found['missing'])}")
    return Group(table, *(Text(note, style="dim") for note in notes))


def _cells(row: Answer) -> list[str]:
    jobs, took = row["jobs"], row["event_to_end_ms"]
    ended = sum(jobs.values())
    return [
        row["tenant_id"],
        row["source"],
        row["type"],
        sparkline(row["deliveries"]),
        f"{row['events']:,}",
        f"{row['redeliveries']:,}",
        f"{row['subjects']:,}",
        f"{ended:,}",
        f"{ended - jobs.get(SUCCEEDED, 0):,}",
        _duration(took["p50"]),
        _duration(took["p99"]),
    ]


def _duration(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-"
    if milliseconds < 10_000:
        return f"{milliseconds:,} ms"
    return f"{milliseconds // 1000:,} s"

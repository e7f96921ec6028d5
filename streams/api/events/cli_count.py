"""`tidegate events count`: how many events of a selection the topic holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from streams.api.events.cli_selection import Past, located, progress
from streams.cli.cells import cell, columns, console_of_any_width, plain
from streams.cli.cluster import ClusterOptions, addressed
from streams.cli.ends import errors_shown
from streams.cli.operator_command import print_json
from streams.cli.options import AsJson, grouped
from streams.event_reader.counts import Counts, notes
from streams.event_reader.scan import Scan
from streams.event_reader.selection import Selection
from streams.event_reader.span import Span, purged_of


@grouped
def count_events(
    wanted: Past,
    cluster: ClusterOptions,
    as_json: AsJson = False,
) -> None:
    """Count the events on the topic `events`, by type and by day, as committed.

    It asks Kafka itself, for as far back as the topic goes. Times are those at which a broker took
    the deliveries in, days are in UTC. Exit codes: 1 Kafka does not answer; 2 a wrong option or
    setting.

    Example: tidegate events count --tenant acme --type 'order.*' --since 7d
    """
    selection, chosen = wanted.selected()
    with errors_shown():
        settings, loaded = cluster.read()
        with addressed(settings), progress("reading events") as told:
            where = located(settings, loaded, selection, chosen)
            found = _counted(Scan(settings, where, selection, told), where, selection)
            found["notes"] += purged_of(where, chosen)
    print_json(found) if as_json else _show(found)


def _counted(scan: Scan, where: Mapping[int, Span], selection: Selection) -> dict[str, Any]:
    counts = Counts()
    for each in scan:
        counts.add(each)
    return counts.json() | {
        "unreadable": scan.progress.unreadable,
        "notes": list(notes(scan.progress, where, selection)),
    }


def _show(found: dict[str, Any]) -> None:
    console = console_of_any_width()
    for title in ("by_type", "by_day"):
        table = columns(title.removeprefix("by_"), "events")
        table.columns[1].justify = "right"
        for name, count in found[title].items():
            table.add_row(cell(name), f"{count:,}")
        if found[title]:
            console.print(table)
    if found["other_types"]:
        typer.echo(f"{found['other_types']:,} events of further types")
    typer.echo(f"{found['events']:,} events")
    for note in found["notes"]:
        typer.echo(f"note: {plain(note)}", err=True)

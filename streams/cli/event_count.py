"""`tidegate events count`: how many events of a selection the topic holds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from streams.cli.cells import console_of_any_width
from streams.cli.cluster import (
    BROKER_SECONDS,
    BootstrapOption,
    FileOption,
    addressed,
    read_settings,
)
from streams.cli.operator_command import print_json
from streams.cli.options import AsJson, Tenant
from streams.cli.quantities import moment
from streams.errors import TidegateError
from streams.event_reader import scan as scanning
from streams.event_reader.counts import Counts, notes
from streams.event_reader.scan import Scan
from streams.event_reader.selection import Selection
from streams.event_reader.span import spans
from streams.kafka.clients import wait_for_broker
from streams.process.wall_clock import wall_ms
from streams.serde.ids import partition_for
from streams.settings import Settings
from streams.topology.cluster import admin_client
from streams.topology.model import Topology

Told = Callable[[scanning.Progress], None]


def count_events(
    tenant: Tenant = None,
    source: Annotated[
        str | None, typer.Option(help="Only of this source.", metavar="SOURCE")
    ] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="GLOB", help="Only of these types; may be repeated."),
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="Only of this subject.", metavar="SUBJECT")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="From this time on, or so long ago.", metavar="TIME")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Before this time, or so long ago.", metavar="TIME")
    ] = None,
    topology: FileOption = None,
    bootstrap: BootstrapOption = None,
    as_json: AsJson = False,
) -> None:
    """Count the events on the topic `events`, by type and by day, as committed.

    It asks Kafka itself, for as far back as the topic goes. Times are those at which a broker took
    the deliveries in, days are in UTC. Exit code 1: Kafka does not answer.

    Example: tidegate events count --tenant acme --type 'order.*' --since 7d
    """
    selection = Selection(
        tenant, source, tuple(type_ or ()), subject,
        _time(since, "--since"), _time(until, "--until"),
    )  # fmt: skip
    _check_times(selection)
    try:
        settings, loaded = read_settings(topology, bootstrap)
        with addressed(settings), _progress() as told:
            found = _counted(settings, loaded, selection, told)
    except TidegateError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    print_json(found) if as_json else _show(found)


def _counted(
    settings: Settings, topology: Topology, selection: Selection, told: Told
) -> dict[str, Any]:
    wait_for_broker(settings, BROKER_SECONDS)
    partitions = range(topology.partitions)
    if selection.tenant_id is not None:
        home = partition_for(selection.tenant_id, topology.partitions)
        partitions = range(home, home + 1)
    where = spans(admin_client(settings), settings.topic_prefix, partitions, selection)
    scan = Scan(settings, where, selection, told)
    counts = Counts()
    for each in scan:
        counts.add(each)
    return counts.json() | {
        "unreadable": scan.progress.unreadable,
        "notes": list(notes(scan.progress, where, selection)),
    }


def _time(text: str | None, flag: str) -> int | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(moment(text, flag))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no time: write one in RFC 3339, as 2026-11-21T09:00:00Z", param_hint=flag
        ) from None
    return round(found.replace(tzinfo=found.tzinfo or UTC).timestamp() * 1000)


def _check_times(selection: Selection) -> None:
    since, until = selection.since, selection.until
    if since is not None and since > wall_ms():
        raise typer.BadParameter("it is in the future: no event came since", param_hint="--since")
    if since is not None and until is not None and until <= since:
        raise typer.BadParameter(
            "it is not after --since: no time lies between", param_hint="--until"
        )


@contextmanager
def _progress() -> Iterator[Told]:
    """A bar on a terminal's standard error; nothing elsewhere."""
    bar = Progress(
        TextColumn("reading events"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty(),
    )  # fmt: skip
    with bar:
        task = bar.add_task("reading", total=None)
        yield lambda now: bar.update(task, completed=now.passed, total=now.total)


def _show(found: dict[str, Any]) -> None:
    console = console_of_any_width()
    for title in ("by_type", "by_day"):
        table = Table(title.removeprefix("by_"), "events")
        table.columns[1].justify = "right"
        for name, count in found[title].items():
            table.add_row(name, f"{count:,}")
        if found[title]:
            console.print(table)
    typer.echo(f"{found['events']:,} events")
    for note in found["notes"]:
        typer.echo(f"note: {note}", err=True)

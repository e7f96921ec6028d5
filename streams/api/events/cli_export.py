"""`tidegate events export`: the selected events as files, for DuckDB, pandas and the like."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from streams.api.events.cli_selection import Past, Told, located, progress
from streams.cli.cells import plain
from streams.cli.cluster import ClusterOptions, addressed
from streams.cli.ends import tell
from streams.cli.operator_command import print_json
from streams.cli.options import AsJson, grouped
from streams.errors import TidegateError, exit_code
from streams.event_export import manifest as manifests
from streams.event_export.export import Export, left, purged
from streams.event_export.formats import FORMATS, encoder
from streams.event_export.manifest import Manifest
from streams.event_reader.counts import notes
from streams.event_reader.scan import Scan
from streams.event_reader.selection import Selection
from streams.event_reader.span import EVENTS, Ranges, Span, purged_of
from streams.kafka.admin import admin_client
from streams.runtime.topics import Topics
from streams.settings import Settings


@grouped
def export_events(
    to: Annotated[Path, typer.Option(help="Directory of the files.", metavar="DIR")],
    wanted: Past,
    cluster: ClusterOptions,
    format_: Annotated[
        str, typer.Option("--format", help=" or ".join(FORMATS) + ".", metavar="FORMAT")
    ] = "jsonl",
    as_json: AsJson = False,
) -> None:
    """Write events to files, DIR/day=2026-11-24/type=order.paid/..., without their bodies.

    Each selected event is in one file. If it is interrupted or the disk is full, type it again: it
    goes on where it ended. Typed again later, it adds what has come since. Exit codes: 1 Kafka or
    the disk does not answer; 2 a wrong option, or DIR holds another export.

    Example: tidegate events export --format parquet --to ./events --type 'order.*' --since 7d
    """
    asked = {
        "format": format_,
        "tenant": wanted.tenant,
        "source": wanted.source,
        "types": wanted.type_ or [],
        "subject": wanted.subject,
        "since": wanted.since,
        "until": wanted.until,
        "offsets": wanted.offsets or [],
    }
    selection, chosen = wanted.selected()
    try:
        encoder(format_)
        settings, loaded = cluster.read()
        with addressed(settings), manifests.locked(to), progress("exporting events") as told:
            asked |= {"topic_id": _topic_id(settings)}
            start = manifests.begun(to, asked, selection.since, selection.until)
            # `7d` means another time now than it meant to the first run.
            selection = replace(selection, since=start.since, until=start.until)
            whole = located(settings, loaded, selection, chosen)
            found = _exported(settings, to, start, whole, chosen, selection, told)
            if not start.next:  # a later run goes on behind them
                found["notes"] += purged_of(whole, chosen)
    except OSError as error:
        _end(
            f"{error.strerror}: {error.filename or to}: {_remedy(error)}, then type the command "
            "again: it goes on where it ended",
            1,
        )
    except TidegateError as error:
        _end(str(error), 2 if isinstance(error, manifests.ExportRefused) else exit_code(error))
    print_json(found) if as_json else _show(found)


def _remedy(error: OSError) -> str:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "make room" if full else "mend that, or name another directory"


def _topic_id(settings: Settings) -> str:
    """The id of the topic, which no other one has, on this cluster or another."""
    admin = admin_client(settings)
    return Topics(admin, settings.topic_prefix).ids([EVENTS])[EVENTS]


def _exported(
    settings: Settings,
    to: Path,
    start: Manifest,
    whole: dict[int, Span],
    chosen: Ranges,
    selection: Selection,
    told: Told,
) -> dict[str, Any]:
    where = left(whole, start)
    scan = Scan(settings, where, selection, told)
    written = Export(to, start.asked["format"], start).run(scan)
    # After a run that has read any, a run knows only some of the types, and few tenants.
    if any(start.next.values()):
        selection = replace(selection, types=(), tenant_id=None)
    return {
        "events": written.events - start.events,
        "events_in_all": written.events,
        "unreadable": written.unreadable,
        "files": sum(1 for _ in to.glob("day=*/type=*/[0-9]*")),
        "directory": str(to),
        "notes": [*purged(whole, start, chosen), *notes(scan.progress, where, selection)],
    }


def _show(found: dict[str, Any]) -> None:
    typer.echo(
        f"{found['events']:,} events written; {found['events_in_all']:,} in {found['files']:,} "
        f"files below {found['directory']}"
    )
    for note in found["notes"]:
        typer.echo(f"note: {plain(note)}", err=True)


def _end(message: str, code: int) -> None:
    tell(message)
    raise typer.Exit(code) from None

"""`tidegate events tail`: events as they come, a line for each."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import nlargest
from itertools import chain
from typing import Annotated

import typer

from streams.api.events.cli_selection import Wanted, located
from streams.cli.cells import plain
from streams.cli.cluster import ClusterOptions, addressed
from streams.cli.ends import errors_shown
from streams.cli.options import JsonLines, grouped
from streams.cli.terminal_text import harmless_json
from streams.event_export.formats import line
from streams.event_reader.follow import follow
from streams.event_reader.rows import row
from streams.event_reader.scan import Found, Scan
from streams.event_reader.selection import Selection
from streams.event_reader.span import Span
from streams.http.moments import rfc3339
from streams.settings import Settings

_FIRST_LOOK = 64


@grouped
def tail_events(
    wanted: Wanted,
    cluster: ClusterOptions,
    last: Annotated[
        int, typer.Option(min=0, max=10_000, help="Begin with the newest N.", metavar="N")
    ] = 10,
    as_json: JsonLines = False,
) -> None:
    """Show events as they come, as committed: time, tenant, source, type, subject, id.

    It begins with the newest ten, or with all since a time. Ctrl-C ends it. Exit codes: 1 Kafka
    does not answer; 2 a wrong option or setting.

    Example: tidegate events tail --tenant acme --type 'order.*' --last 50

    Example: tidegate events tail --since 1h --json | jq .event_type
    """
    selection = wanted.selection()
    try:
        with errors_shown():
            settings, loaded = cluster.read()
            with addressed(settings):
                where = located(settings, loaded, selection, {})
                before: Iterable[Found] = Scan(settings, where, selection)
                if wanted.since is None:
                    before = _newest(settings, where, selection, last)
                ends = {number: span.end for number, span in where.items()}
                for found in chain(_or_a_note(before), follow(settings, ends, selection)):
                    _tell(found, as_json)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _or_a_note(before: Iterable[Found]) -> Iterator[Found]:
    """What there is already; a note if that is nothing, as when a name is misspelled."""
    some = False
    for found in before:
        some = True
        yield found
    if not some:
        typer.echo("waiting for the next such event (Ctrl-C ends it)", err=True)


def _newest(
    settings: Settings, where: dict[int, Span], selection: Selection, last: int
) -> list[Found]:
    """The newest events by time: it looks back further and further until there are enough."""
    back = max(last, _FIRST_LOOK)
    while last:
        spans = {n: replace(s, first=max(s.first, s.end - back)) for n, s in where.items()}
        # Keep only these: where it looks further back there may be millions.
        found = nlargest(
            last, Scan(settings, spans, selection), key=lambda each: (each.at, each.offset)
        )
        if len(found) == last or spans == where:
            return found[::-1]
        back *= 4
    return []


def _tell(found: Found, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(harmless_json(line(row(found))))
    else:
        event = found.event
        words = (event.tenant_id, event.source, event.event_type, event.subject, event.event_id)
        told = "  ".join(plain(word) for word in words)
        sys.stdout.write(f"{rfc3339(found.at)}  {told}\n")
    sys.stdout.flush()

"""The options by which commands select events of the topic `events`, and what they mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer

from streams.cli.cells import progress_bar
from streams.cli.cluster import BROKER_SECONDS, require_width
from streams.cli.options import Tenant
from streams.cli.quantities import moment
from streams.event_reader import scan as scanning
from streams.event_reader.selection import Selection
from streams.event_reader.span import EVENTS, Ranges, Span, partitions_of, spans, within
from streams.kafka.admin import admin_client
from streams.kafka.clients import wait_for_broker
from streams.process.wall_clock import wall_ms
from streams.settings import Settings
from streams.topology.model import Topology

Source = Annotated[str | None, typer.Option(help="Only of this source.", metavar="SOURCE")]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="GLOB", help="Only of these types; may be repeated."),
]
Subject = Annotated[str | None, typer.Option(help="Only of this subject.", metavar="SUBJECT")]
Since = Annotated[
    str | None, typer.Option(help="From this time on, or so long ago.", metavar="TIME")
]
Until = Annotated[
    str | None, typer.Option(help="Before this time, or so long ago.", metavar="TIME")
]
Offsets = Annotated[
    list[str] | None,
    typer.Option(
        metavar="P:FIRST-END",
        help="Only these offsets of a partition, END excluded; may be repeated.",
    ),
]
Told = Callable[[scanning.Progress], None]

_RANGE = re.compile(r"(\d{1,5}):(\d{1,18})-(\d{1,18})?", re.ASCII)


@dataclass(frozen=True)
class Wanted:
    tenant: Tenant = None
    source: Source = None
    type_: Types = None
    subject: Subject = None
    since: Since = None

    def selection(self, until: str | None = None) -> Selection:
        """The selection that the options make.

        Raises:
            BadParameter: a time is none, lies in the future, or is not after the other one; a text
                is not UTF-8.
        """
        types = tuple(self.type_ or ())
        _require_utf8(self.tenant, self.source, self.subject, *types)
        since, end = time_of(self.since, "--since"), time_of(until, "--until")
        if since is not None and since > wall_ms():
            raise typer.BadParameter(
                f"{self.since} is in the future: no event came since", param_hint="--since"
            )
        if since is not None and end is not None and end <= since:
            raise typer.BadParameter(
                f"{until} is not after --since {self.since}: no time lies between",
                param_hint="--until",
            )
        return Selection(self.tenant, self.source, types, self.subject, since, end)


@dataclass(frozen=True)
class Past(Wanted):
    """The options that select events of the past."""

    until: Until = None
    offsets: Offsets = None

    def selected(self) -> tuple[Selection, Ranges]:
        """The selection, and the offsets that narrow it down; raises what `selection` raises."""
        return self.selection(self.until), ranges(self.offsets)


def _require_utf8(*texts: str | None) -> None:
    for text in texts:
        try:
            (text or "").encode()
        except UnicodeEncodeError:
            raise typer.BadParameter(f"{text!r} is not UTF-8: no event has it") from None


def ranges(texts: list[str] | None) -> Ranges:
    """The offsets that `--offsets` names: partition to first and end, an end of None is open.

    Raises:
        BadParameter: a text has another form, a range is empty, or a partition comes twice.
    """
    found: dict[int, tuple[int, int | None]] = {}
    for text in texts or ():
        matched = _RANGE.fullmatch(text)
        if matched is None or int(matched[1]) in found:
            raise typer.BadParameter(
                f"{text!r}: write a partition and its offsets once, as 0:1500-2000, or 0:1500- for "
                "all from there on",
                param_hint="--offsets",
            )
        first, end = int(matched[2]), int(matched[3]) if matched[3] else None
        if end is not None and end <= first:
            raise typer.BadParameter(
                f"{text!r}: its end must be after its first offset", param_hint="--offsets"
            )
        found[int(matched[1])] = first, end
    return found


def time_of(text: str | None, flag: str) -> int | None:
    """A time in milliseconds since 1970, 0 for earlier ones; one without a zone is in UTC.

    Raises:
        BadParameter: it is no time.
    """
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(moment(text, flag))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no time: write one in RFC 3339, as 2026-11-21T09:00:00Z", param_hint=flag
        ) from None
    at = round(found.replace(tzinfo=found.tzinfo or UTC).timestamp() * 1000)
    return max(at, 0)  # Kafka takes times below 0 for names of places, such as the topic's end.


def located(
    settings: Settings, topology: Topology, selection: Selection, chosen: Ranges
) -> dict[int, Span]:
    """The offsets in which selected events can be, as of now; `chosen` narrows them down.

    Raises:
        BadParameter: there is no such partition.
        ConfigError: the topic has another number of partitions than the topology.
        KafkaUnavailable: no broker answers, or a partition has no leader.
    """
    wait_for_broker(settings, BROKER_SECONDS)
    require_width(settings, topology, EVENTS)
    there = partitions_of(selection, topology.partitions)
    if strange := sorted(chosen.keys() - set(there)):
        raise typer.BadParameter(
            f"no selected event is in partition {strange[0]}: they are in "
            f"{', '.join(map(str, there))}",
            param_hint="--offsets",
        )
    found = spans(admin_client(settings), settings.topic_prefix, there, selection)
    return within(found, chosen) if chosen else found


@contextmanager
def progress(doing: str) -> Iterator[Told]:
    """A bar on a terminal's standard error; nothing elsewhere."""
    with progress_bar(doing) as bar:
        task = bar.add_task(doing, total=None)
        yield lambda now: bar.update(task, completed=now.passed, total=now.total)

"""`tidegate events seek`: a reader of its own goes on from another place of the topic."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from streams.api.events.cli_selection import time_of
from streams.cli.cells import columns, console_of_any_width
from streams.cli.cluster import ClusterOptions, addressed, require_width
from streams.cli.ends import errors_shown
from streams.cli.operator_command import print_json
from streams.cli.options import AsJson, grouped
from streams.event_reader import group as groups
from streams.event_reader.group import Ends, Move, Target, require_own_group
from streams.event_reader.span import EVENTS
from streams.kafka.admin import admin_client
from streams.kafka.clients import wait_for_broker
from streams.process.wall_clock import wall_ms
from streams.settings import Settings
from streams.topology.model import Topology

_BROKER_SECONDS = 5.0
_PLACE = re.compile(r"(\d{1,5}):(\d{1,18})", re.ASCII)


@grouped
def seek(
    group: Annotated[str, typer.Option(help="The reader's consumer group.", metavar="GROUP")],
    to: Annotated[
        list[str],
        typer.Option(
            help="start, end, a time (or how long ago), or PARTITION:OFFSET (may be repeated).",
            metavar="PLACE",
        ),
    ],
    cluster: ClusterOptions,
    apply: Annotated[bool, typer.Option("--apply", help="Do it; else it is only shown.")] = False,
    create: Annotated[bool, typer.Option("--create", help="The group may be new.")] = False,
    as_json: AsJson = False,
) -> None:
    """Set where a reader of `events` goes on; without --apply only show it.

    It is for readers whose offsets are those of their consumer group, and refuses a group in which
    somebody reads now. Exit codes: 0 shown or done; 1 refused, or Kafka does not answer; 2 a wrong
    option or setting, or a group of Tidegate's own.

    Example: tidegate events seek --group my-analytics --to 2d

    Example: tidegate events seek --group my-analytics --to 0:1500 --to 1:1720 --apply
    """
    with errors_shown():
        settings, loaded = cluster.read()
        require_own_group(group.removeprefix(settings.topic_prefix))
        with addressed(settings):
            found = _moved(settings, loaded, group, to, apply=apply, create=create)
    print_json(_json(group, found, applied=apply)) if as_json else _show(group, found, apply)


def _moved(
    settings: Settings, topology: Topology, group: str, to: list[str], *, apply: bool, create: bool
) -> list[Move]:
    wait_for_broker(settings, _BROKER_SECONDS)
    require_width(settings, topology, EVENTS)
    admin, prefix = admin_client(settings), settings.topic_prefix
    groups.require_at_rest(admin, group, may_be_new=create)
    target = _target(admin, prefix, topology.partitions, to)
    own_group = {"group.id": group, "enable.auto.commit": False}
    with Consumer(settings.client() | own_group) as reader:  # also where all clients are told one
        found = groups.moves(admin, prefix, reader, range(topology.partitions), target)
        if apply:
            groups.move(reader, prefix, found)
    return found


def _target(admin: AdminClient, prefix: str, partitions: int, to: list[str]) -> Target:
    places = [_PLACE.fullmatch(text) for text in to]
    if all(places):
        wanted = {int(place[1]): int(place[2]) for place in places if place}
        if len(wanted) < len(to):
            raise typer.BadParameter("a partition comes twice: name it once", param_hint="--to")
        if strange := sorted(each for each in wanted if each >= partitions):
            raise typer.BadParameter(
                f"events has no partition {strange[0]}: it has 0 to {partitions - 1}",
                param_hint="--to",
            )
        return lambda number, _: wanted.get(number)
    if len(to) > 1:
        raise typer.BadParameter(
            "give one time, start or end, or for each partition PARTITION:OFFSET", param_hint="--to"
        )
    if to[0] in ("start", "end"):
        return _first if to[0] == "start" else _last
    at = time_of(to[0], "--to") or 0
    if at > wall_ms():
        raise typer.BadParameter(f"{to[0]} is in the future: give `end`", param_hint="--to")
    since = groups.first_since(admin, prefix, range(partitions), at)
    return lambda number, _: since[number]


def _first(_: int, ends: Ends) -> int:
    return ends.first


def _last(_: int, ends: Ends) -> int:
    return ends.end


def _json(group: str, found: list[Move], *, applied: bool) -> dict[str, Any]:
    moves = [{"partition": m.partition, "from": m.now, "to": m.to, "asked": m.asked} for m in found]
    return {"group": group, "applied": applied, "moves": moves}


def _show(group: str, found: list[Move], applied: bool) -> None:
    table = columns("partition", "from", "to", "records")
    for each in found:
        apart = "-" if each.now is None else f"{each.to - each.now:+,}"
        table.add_row(str(each.partition), _offset(each.now), _offset(each.to), apart)
    console_of_any_width().print(table)
    for each in found:
        if each.asked is not None:
            typer.echo(
                f"note: partition {each.partition} has no offset {each.asked}; this is the nearest",
                err=True,
            )
    typer.echo(
        f"group {group} goes on there" if applied else "nothing was changed: add --apply to do it"
    )


def _offset(offset: int | None) -> str:
    return "-" if offset is None else f"{offset:,}"

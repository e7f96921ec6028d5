"""`tidegate topology size`: what a load needs, from measured figures; asks no broker."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from sizing.demand import Demand, Pool
from sizing.limits import warnings
from sizing.size import APART, FUSED, Size, size, with_window
from sizing.stages import HEAD_ROOM
from sizing.units import count, span
from streams.cli.cells import console_of_any_width
from streams.cli.cluster import FileOption, errors_told
from streams.cli.operator_command import print_json
from streams.cli.options import AsJson
from streams.settings import load_settings
from streams.topology.load import load

_GB, _MB = 1e9, 1e6
_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]*")


def _rate(text: str) -> Any:
    return typer.Option(help=text, metavar="N")


def topology_size(
    events: Annotated[float, _rate("Events a second, each counted once.")],
    jobs: Annotated[float, _rate("Jobs a second.")],
    effects: Annotated[float, _rate("Side effects a job.")] = 1.0,
    redeliveries: Annotated[float, _rate("Redeliveries an event.")] = 0.1,
    deliveries: Annotated[float, _rate("Outgoing deliveries an event.")] = 0.0,
    body_bytes: Annotated[int, _rate("Bytes of a body.")] = 1_024,
    value_bytes: Annotated[
        int, _rate("Bytes of a job's input, result, steps and effects' results.")
    ] = 0,
    largest_tenant: Annotated[
        float, _rate("Share of the largest tenant, 0 to 1; it has one partition.")
    ] = 0.1,
    handler_seconds: Annotated[float, _rate("Seconds that a handler runs.")] = 1.0,
    slots: Annotated[int, _rate("Handlers that a worker runs at once.")] = 20,
    pool: Annotated[
        list[str] | None,
        typer.Option(
            help="Jobs a second, seconds of a handler and slots of another pool: slow=5/60/20. "
            "Repeatable.",
            metavar="NAME=JOBS/SECONDS[/SLOTS]",
        ),
    ] = None,
    window_days: Annotated[
        float | None, _rate("Days of the dedup window. (the topology's by default)")
    ] = None,
    replication: Annotated[int, _rate("Replicas of each topic.")] = 3,
    restore_minutes: Annotated[
        float, _rate("Minutes in which a process that lost its disk must be back.")
    ] = 60.0,
    apart: Annotated[
        bool, typer.Option("--apart", help="Run dedup, scheduler, dispatcher as processes apart.")
    ] = False,
    analytics: Annotated[
        bool, typer.Option("--analytics", help="Count, too; its memory was not measured.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the formula behind each number.")
    ] = False,
    topology: FileOption = None,
    as_json: AsJson = False,
) -> None:
    """Compute partitions, processes, memory and disks from your rates. Changes nothing.

    Processes are planned at 60 % of what was measured; `docs/sizing.md` has the figures.

    Example: tidegate topology size --events 1000 --jobs 200 --window-days 7

    Example: tidegate topology size --events 100 --jobs 100 --handler-seconds 30 --explain
    """
    with errors_told(as_json):
        settings = load_settings(topology=topology)
        declared = with_window(load(settings.topology), window_days)
        demand = Demand(
            events=events,
            jobs=jobs,
            effects=effects,
            body_bytes=body_bytes,
            value_bytes=value_bytes,
            redeliveries=redeliveries,
            deliveries=deliveries,
            largest_tenant=largest_tenant,
            handler_seconds=handler_seconds,
            slots=slots,
            replication=replication,
            restore_minutes=restore_minutes,
            listed_hours=settings.events_listed_hours,
            pools=tuple(_pool(text) for text in pool or ()),
        )
        stages = (*(APART if apart else FUSED), *(["analytics"] if analytics else ()))
        sized = size(demand, declared, stages)
        told = warnings(sized, declared)
        if as_json:
            print_json(_json(sized, told))
        else:
            _show(console_of_any_width(), sized, told, explain=explain)


def _pool(text: str) -> Pool:
    name, _, numbers = text.partition("=")
    try:
        jobs, seconds, *slots = numbers.split("/")
        if not _NAME.fullmatch(name):
            raise ValueError
        return Pool(name, float(jobs), float(seconds), int(*slots) if slots else 20)
    except (ValueError, TypeError):
        raise typer.BadParameter(
            f"{text!r}: write a name, jobs a second, seconds of a handler and slots, as "
            "slow=5/60/20",
            param_hint="--pool",
        ) from None


def _show(console: Console, sized: Size, warnings: tuple[str, ...], *, explain: bool) -> None:
    console.print(f"partitions: {sized.topology.partitions}", highlight=False)
    console.print(_processes(sized))
    if explain:
        _formulas(console, ((s.name, s.formulas) for s in sized.stages))
    console.print(_topics(sized))
    if explain:
        _formulas(console, ((t.name, (t.formula,)) for t in sized.topics))
    console.print(_brokers(sized))
    if explain:
        _formulas(console, [("brokers", sized.brokers.formulas)])
    for text in warnings:
        console.print(f"warning: {text}", markup=False, highlight=False, soft_wrap=True)


def _processes(sized: Size) -> Table:
    table = _table(
        f"Processes, planned at {HEAD_ROOM:.0%} of what was measured",
        "stage",
        "processes",
        "cores busy,\nall",
        "memory MiB,\neach",
        "disk GB,\neach",
        "restore,\neach",
    )
    for stage in sized.stages:
        memory = f"{stage.memory_mib:,.0f}" if stage.memory_mib else "-"
        disk = f"{stage.disk / _GB:,.1f}" if stage.disk else "-"
        restore = span(stage.restore_seconds) if stage.restore_seconds else "-"
        table.add_row(
            stage.name, f"{stage.processes:,}", f"{stage.cores:,.2f}", memory, disk, restore
        )
    return table


def _topics(sized: Size) -> Table:
    replicas = sized.demand.replication
    table = _table(
        "Topics",
        "topic",
        "written kB/s,\none replica",
        "disk GB,\none replica",
        f"disk GB,\n{replicas} replica{'s' * (replicas > 1)}",
    )
    for topic in sized.topics:
        table.add_row(
            topic.name,
            f"{topic.written / 1e3:,.1f}",
            f"{topic.disk / _GB:,.1f}",
            f"{topic.disk * replicas / _GB:,.1f}",
        )
    return table


def _brokers(sized: Size) -> Table:
    table = _table("Brokers, all together", "what", "amount", "unit")
    found = sized.brokers
    for what, amount, unit in (
        ("processor", f"{found.cores:,.1f}", "cores, roughly"),
        ("written by clients", f"{found.clients_in / _MB:,.1f}", "MB/s"),
        ("copied between brokers", f"{found.replication_in / _MB:,.1f}", "MB/s"),
        ("read by clients", f"{found.clients_out / _MB:,.1f}", "MB/s"),
        ("disk of all replicas", f"{found.disk / _GB:,.1f}", "GB"),
        ("replicas of partitions", count(found.replicas), ""),
    ):
        table.add_row(what, amount, unit)
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(box=None, pad_edge=False, title=f"\n{title}", title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number and column != "unit" else "left")
    return table


def _formulas(console: Console, parts: Iterable[tuple[str, tuple[str, ...]]]) -> None:
    for name, formulas in parts:
        for formula in formulas:
            console.print(f"  {name}: {formula}", markup=False, highlight=False, soft_wrap=True)


def _json(sized: Size, warnings: tuple[str, ...]) -> dict[str, Any]:
    return {
        "demand": asdict(sized.demand),
        "window_days": sized.topology.window_ms / 86_400_000,
        "head_room": HEAD_ROOM,
        "partitions": sized.topology.partitions,
        "stages": [asdict(stage) for stage in sized.stages],
        "topics": [
            {**asdict(topic), "disk_of_all_replicas": topic.disk * sized.demand.replication}
            for topic in sized.topics
        ],
        "brokers": asdict(sized.brokers),
        "warnings": list(warnings),
    }

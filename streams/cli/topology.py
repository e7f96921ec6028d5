"""`tidegate topology validate | plan | apply | describe`: the declaration against a cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from streams.cli.cells import console_of_any_width
from streams.cli.cluster import (
    BROKER_SECONDS,
    BootstrapOption,
    FileOption,
    addressed,
    errors_told,
    read_settings,
)
from streams.cli.operator_command import print_json
from streams.cli.options import AsJson, DevDir, grouped, own_options, with_options
from streams.cli.rights import AclOptions, AsAcls, print_acls
from streams.kafka.admin import admin_client
from streams.kafka.clients import wait_for_broker
from streams.process.shutdown import end_on_sigterm
from streams.process.standstill import PATIENCE_SECONDS, Standstill
from streams.settings import load_settings
from streams.shipped_files import resource
from streams.topology import describe as descriptions
from streams.topology.apply import execute
from streams.topology.apply import plan as make_plan
from streams.topology.asyncapi import asyncapi
from streams.topology.load import checked
from streams.topology.mermaid import mermaid
from streams.topology.model import LayoutName, Topology
from streams.topology.plan import Consent, Plan

app = typer.Typer(
    name="topology",
    no_args_is_help=True,
    help="Check topology.yaml and bring a cluster's topics in line with it.",
)

UnsafeOption = Annotated[
    bool, typer.Option("--allow-unsafe", help="Accept fewer than 3 replicas of each topic.")
]
PartitionsOption = Annotated[
    bool, typer.Option("--allow-partition-change", help="Add partitions although keys move.")
]
RetentionOption = Annotated[
    bool,
    typer.Option(
        "--allow-shorter-retention", help="Delete records earlier, or compact what was not."
    ),
]
DeleteOption = Annotated[
    list[str] | None,
    typer.Option(help="Delete this undeclared topic; may be repeated.", metavar="TOPIC"),
]


@app.command()
def validate(topology: FileOption = None, as_json: AsJson = False) -> None:
    """Check the file; exit code 2 and one line for every problem if it is not valid.

    What is valid and has no effect gets a warning on standard error, and exit code 0.

    Example: tidegate topology validate --topology examples/support/topology.yaml
    """
    with errors_told(as_json):
        found = checked(load_settings(topology=topology).topology)
        counts = _counts(found.topology)
        for warning in found.warnings:
            typer.echo(f"warning: {warning}", err=True)
        if as_json:
            warnings = list(found.warnings)
            print_json({"valid": True, **counts, "errors": [], "warnings": warnings})
        else:
            typer.echo("valid (" + ", ".join(f"{what}: {n}" for what, n in counts.items()) + ")")


def _compare(
    execute_it: bool,
    topology: FileOption = None,
    bootstrap: BootstrapOption = None,
    data_dir: DevDir = None,
    allow_unsafe: UnsafeOption = False,
    allow_partition_change: PartitionsOption = False,
    allow_shorter_retention: RetentionOption = False,
    delete: DeleteOption = None,
    as_json: AsJson = False,
) -> None:
    with errors_told(as_json):
        settings, loaded = read_settings(topology, bootstrap, data_dir)
        consent = Consent(
            allow_unsafe, allow_partition_change, tuple(delete or ()), allow_shorter_retention
        )
        with addressed(settings):
            admin = admin_client(settings)
            planned = make_plan(loaded, admin, settings.topic_prefix, consent)
            applied = execute_it and not planned.refusals
            if applied:
                execute(planned, admin)
        _show(planned, as_json, applied=applied)
        if planned.refusals:
            raise typer.Exit(1)


def _plan(**given: Any) -> None:
    """Show what apply would do and change nothing; exit code 1 if it would refuse.

    Example: tidegate topology plan --bootstrap kafka-1:9092,kafka-2:9092
    """
    _compare(False, **given)


def _apply(**given: Any) -> None:
    """Create and change topics as declared; exit code 1, and nothing done, if it refuses.

    Example: tidegate topology apply --bootstrap kafka-1:9092 --topology my-topology.yaml
    """
    end_on_sigterm()
    _compare(True, **given)


def _spreadsheet() -> Callable[..., None]:
    """The command of `benchmarks/sizing`, which has the measured figures and the arithmetic."""
    sys.path.append(str(resource("benchmarks")))
    from sizing.command import topology_size

    return topology_size


app.command("plan")(with_options(_plan, own_options(_compare)))
app.command("apply")(with_options(_apply, own_options(_compare)))
app.command("size")(_spreadsheet())


@app.command()
def layout(
    layout: Annotated[
        LayoutName, typer.Argument(help="How the stages are to run from now on.", metavar="LAYOUT")
    ],
    topology: FileOption = None,
    bootstrap: BootstrapOption = None,
    data_dir: DevDir = None,
    as_json: AsJson = False,
) -> None:
    """Carry the positions of separate stages over to the fused ones, or the other way round.

    Stop the stages of both layouts first. Their positions are moved; their stores are rebuilt from
    the changelogs at the next start. Nothing is lost, and nothing is done twice.

    Example: tidegate topology layout fused && tidegate pipeline
    """
    from streams.runtime.layouts import carry_over

    end_on_sigterm()
    with errors_told(as_json):
        settings, loaded = read_settings(topology, bootstrap, data_dir)
        wait_for_broker(settings, BROKER_SECONDS)
        patience = PATIENCE_SECONDS + 3 * settings.session_seconds
        with addressed(settings), Standstill(patience).watched():
            moved = carry_over(layout, loaded, settings, admin_client(settings))
        if as_json:
            print_json({"layout": layout, "moved": moved})
        else:
            told = ", ".join(f"{count} of {group}" for group, count in moved.items())
            typer.echo(f"positions moved: {told}" if moved else "there are no positions to move")


def describe(
    topology: FileOption = None,
    data_dir: DevDir = None,
    as_json: AsJson = False,
    as_mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print the flow as a Mermaid graph.")
    ] = False,
    as_asyncapi: Annotated[
        bool,
        typer.Option("--asyncapi", help="Print the topics as an AsyncAPI 3 document, in JSON."),
    ] = False,
    acls: AsAcls = False,
    *,
    asked: AclOptions,
) -> None:
    """Show topics, stages, routes, job types and limits as they are after the overlay.

    Example: tidegate topology describe --mermaid > flow.mmd

    Example: tidegate topology describe --asyncapi > asyncapi.json

    Example: tidegate topology describe --acls --format strimzi > users.yaml
    """
    with errors_told(as_json):
        settings, loaded = read_settings(topology, data_dir=data_dir)
        if acls:
            print_acls(loaded, settings, asked, json=as_json)
        elif as_mermaid:
            typer.echo(mermaid(loaded))
        elif as_asyncapi:
            tls = settings.kafka.get("security.protocol", "").upper().endswith("SSL")
            print_json(asyncapi(loaded, settings.topic_prefix, settings.bootstrap, tls=tls))
        elif as_json:
            print_json(descriptions.as_json(loaded))
        else:
            console = console_of_any_width()
            for table in descriptions.tables(loaded):
                console.print(table)


app.command("describe")(grouped(describe))


def _counts(topology: Topology) -> dict[str, int]:
    return {
        "topics": len(topology.topics),
        "stages": len(topology.stages),
        "routes": len(topology.routes),
        "limits": len(topology.limits),
    }


def _show(planned: Plan, as_json: bool, *, applied: bool) -> None:
    if as_json:
        print_json(_plan_json(planned, applied))
        return
    for step in planned.steps:
        typer.echo(step)
    for note in planned.notes:
        typer.echo(f"note: {note}")
    for refusal in planned.refusals:
        typer.echo(f"refused: {refusal}", err=True)
    if planned.empty:
        typer.echo("nothing to change")
    elif planned.refusals:
        typer.echo("nothing was changed", err=True)
    else:
        typer.echo(f"changes {'made' if applied else 'to make'}: {len(planned.steps)}")


def _plan_json(planned: Plan, applied: bool) -> dict[str, Any]:
    steps = [{"step": type(step).__name__, **asdict(step)} for step in planned.steps]
    return {
        "empty": planned.empty,
        "applied": applied,
        "steps": steps,
        "refusals": [asdict(refusal) for refusal in planned.refusals],
        "notes": list(planned.notes),
    }

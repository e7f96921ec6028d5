"""`tidegate workers ...`: what runs where, and workers that shall take no more, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.api.workers import cli_tables as tables
from streams.cli.operator_command import Answer, Api, command

workers = typer.Typer(no_args_is_help=True, help="What runs at each worker; drain one.")

Worker = Annotated[
    str,
    typer.Argument(
        metavar="WORKER", help="Its name, as `list` shows it; a worker id stands for its name."
    ),
]
By = Annotated[str | None, typer.Option(help="Who does it, if not the operator.", metavar="PERSON")]


@workers.callback()
def _group() -> None:
    """List workers with the jobs that run there, drain one, and resume it."""


@command(workers, "list", tables.listing)
def list_workers(api: Api) -> Answer:
    """List the workers at which jobs run, with how many, and those that are drained.

    An idle worker that is not drained has no line.

    Example: tidegate workers list
    """
    return api.get("/v1/workers")


@command(workers, "drain", tables.drained)
def drain(
    api: Api,
    worker: Worker,
    reason: Annotated[str, typer.Option(help="Why; everybody is shown it.", metavar="TEXT")],
    by: By = None,
) -> Answer:
    """Give a worker no new leases; it ends what it runs, and then waits.

    It holds for each later process of the same name, and through restarts of all processes, until
    the worker is resumed.

    Example: tidegate workers drain default:agents-0 --reason "its node is replaced"
    """
    found = api.post("/v1/limits/pause", _body(worker, by) | {"reason": reason})
    if found["warning"]:
        typer.echo(f"warning: {found['warning']}", err=True)
    return found


@command(workers, "resume", tables.resumed)
def resume(api: Api, worker: Worker, by: By = None) -> Answer:
    """Give a drained worker leases again.

    Example: tidegate workers resume default:agents-0
    """
    return api.post("/v1/limits/resume", _body(worker, by))


def _body(worker: str, by: str | None) -> dict[str, str]:
    named = {"scope": "worker", "value": worker.partition("/")[0]}
    return named | ({} if by is None else {"by": by})

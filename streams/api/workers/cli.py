"""`tidegate workers ...`: what runs where, and workers that shall take no more, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.api.limits import cli
from streams.api.limits.cli import By, Reason
from streams.api.workers import cli_tables as tables
from streams.cli.operator_command import Answer, Api, command

SCOPE = "worker"

workers = typer.Typer(no_args_is_help=True, help="What runs at each worker; drain one.")

Worker = Annotated[
    str,
    typer.Argument(
        metavar="WORKER", help="Its name, as `list` shows it; a worker id stands for its name."
    ),
]


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
    reason: Reason,
    by: By = None,
) -> Answer:
    """Give a worker no new leases; it ends what it runs, and then waits.

    It holds for each later process of the same name, and through restarts of all processes, until
    the worker is resumed.

    Example: tidegate workers drain default:agents-0 --reason "its node is replaced"
    """
    found: Answer = cli.pause(api, SCOPE, _name(worker), reason, by)
    return found


@command(workers, "resume", tables.resumed)
def resume(api: Api, worker: Worker, by: By = None) -> Answer:
    """Give a drained worker leases again.

    Example: tidegate workers resume default:agents-0
    """
    found: Answer = cli.resume(api, SCOPE, _name(worker), by)
    return found


def _name(worker: str) -> str:
    """The name of a worker, or of the worker that an id is of."""
    return worker.partition("/")[0]

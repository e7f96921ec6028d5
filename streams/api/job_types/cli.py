"""`tidegate job-types ...`: what applications declare of their job types, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.api.job_types import cli_tables as job_type_tables
from streams.cli.operator_command import Answer, Api, command, part

job_types = typer.Typer(no_args_is_help=True, help="Job types as applications declare them.")


@job_types.callback()
def _group() -> None:
    """List and show job types: inputs and results, attempts, timeouts, tools and limits."""


@command(job_types, "list", job_type_tables.listing)
def list_job_types(api: Api) -> Answer:
    """List the job types that workers have announced, by name.

    Example: tidegate job-types list
    """
    return api.get("/v1/job-types")


@command(job_types, "show", job_type_tables.one)
def show(
    api: Api,
    name: Annotated[str, typer.Argument(metavar="TYPE", help="The name of a job type.")],
) -> Answer:
    """Show a job type with the JSON schemas of its input and result.

    Example: tidegate job-types show draft_reply
    """
    return api.get(f"/v1/job-types/{part(name)}")

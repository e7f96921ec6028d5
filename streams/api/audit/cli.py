"""`tidegate audit ...`: who did what, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.api.audit import cli_tables as tables
from streams.api.audit.cli_tail import tail
from streams.api.audit.cli_verify import verify
from streams.cli.operator_command import Answer, Api, command
from streams.cli.options import Page
from streams.cli.quantities import moment

audit = typer.Typer(no_args_is_help=True, help="List who did what; check that none is missing.")


@audit.callback()
def _group() -> None:
    """List who did what through the API, and what was refused; check that none is missing."""


audit.command("tail")(tail)
audit.command("verify")(verify)


@command(audit, "list", tables.entries)
def list_entries(
    api: Api,
    page: Page,
    principal: Annotated[
        str | None, typer.Option(help="Of this caller, as `operator`.", metavar="PRINCIPAL")
    ] = None,
    verb: Annotated[
        str | None, typer.Option(help="Of this act, as `job.cancel`.", metavar="VERB")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="About the thing with this id.", metavar="ID")
    ] = None,
    outcome: Annotated[str | None, typer.Option(help="done or refused.", metavar="OUTCOME")] = None,
    command_id: Annotated[
        str | None, typer.Option("--command", help="The answer to this command.", metavar="ID")
    ] = None,
    request_id: Annotated[
        str | None,
        typer.Option(help="Of this call, or of the items of this bulk act.", metavar="ID"),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="From then on: RFC 3339, or 2h ago.", metavar="TIME")
    ] = None,
) -> Answer:
    """List entries of the audit, newest first: your own without the permission `admin`.

    Example: tidegate audit list --tenant acme --outcome refused --since 1h
    """
    asked = {
        "principal": principal,
        "verb": verb,
        "target": target,
        "outcome": outcome,
        "command": command_id,
        "request_id": request_id,
        "since": None if since is None else moment(since, "--since"),
    }
    found = api.get("/v1/audit", **page.query, **asked)
    if found.get("only_of"):
        typer.echo("these are your own acts: others' need the permission admin", err=True)
    return found

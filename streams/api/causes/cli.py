"""`tidegate causes ...`: why jobs and records are dead, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.api.causes import cli_tables as tables
from streams.cli.operator_command import Answer, Api, command, part
from streams.cli.options import Note, Page, Type
from streams.cli.quantities import moment

causes = typer.Typer(no_args_is_help=True, help="Why there are dead letters: list and decide.")

CauseId = Annotated[str, typer.Argument(metavar="CAUSE")]


@causes.callback()
def _group() -> None:
    """List why jobs and records are dead, and decide about each cause."""


@command(causes, "list", tables.causes)
def list_causes(
    api: Api,
    page: Page,
    type_: Type = None,
    state: Annotated[
        str | None, typer.Option(help="Only these: open, resolved, ignored.", metavar="STATE")
    ] = None,
    trend: Annotated[
        str | None,
        typer.Option(help="Count by hour or by minute. (hour by default)", metavar="WIDTH"),
    ] = None,
) -> Answer:
    """List causes of dead letters, those with the newest letter first.

    Example: tidegate causes list --state open --type export
    """
    asked = {"job_type": type_, "state": state, "trend": trend}
    return api.get("/v1/causes", **page.query, **asked)


@command(causes, "show", tables.cause)
def show(api: Api, cause: CauseId) -> Answer:
    """Show a cause, when its letters came, what was decided, and one of its letters.

    Example: tidegate causes show cau_7k2l0qf3v7t1m8ab
    """
    return api.get(f"/v1/causes/{part(cause)}")


@command(causes, "resolve", tables.cause)
def resolve(api: Api, cause: CauseId, note: Note) -> Answer:
    """Say that a cause is mended; a letter that comes afterwards opens it again.

    Its letters stay: replay them with `dlq replay --all --cause`, or as a bulk act.

    Example: tidegate causes resolve cau_7k2l0qf3v7t1m8ab --note "the mail server is back"
    """
    return api.post(f"/v1/causes/{part(cause)}/resolve", {"note": note})


@command(causes, "ignore", tables.cause)
def ignore(
    api: Api,
    cause: CauseId,
    note: Note,
    until: Annotated[
        str, typer.Option(help="Open again then: RFC 3339, or 2h from now.", metavar="TIME")
    ],
) -> Answer:
    """Leave a cause aside until a time, whatever letters come.

    Example: tidegate causes ignore cau_7k2l0qf3v7t1m8ab --until 12h --note "mended tomorrow"
    """
    end = moment(until, "--until", ahead=True)
    return api.post(f"/v1/causes/{part(cause)}/ignore", {"note": note, "until": end})


@command(causes, "reopen", tables.cause)
def reopen(api: Api, cause: CauseId, note: Note) -> Answer:
    """Open a cause again that was resolved or ignored.

    Example: tidegate causes reopen cau_7k2l0qf3v7t1m8ab --note "it was not mended"
    """
    return api.post(f"/v1/causes/{part(cause)}/reopen", {"note": note})

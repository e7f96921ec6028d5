"""`tidegate quarantine ...`: bodies that did not fit their source, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.api.quarantine import cli_tables as tables
from streams.cli.operator_command import Answer, Api, command, part
from streams.cli.options import EventId, Page
from streams.cli.tables import one

quarantine = typer.Typer(
    no_args_is_help=True, help="List, show and release bodies that did not fit their source."
)


@command(quarantine, "list", tables.quarantined)
def list_quarantined(
    api: Api,
    page: Page,
    status: Annotated[
        str | None, typer.Option(help="Only waiting, or only released.", metavar="STATE")
    ] = None,
) -> Answer:
    """List signed bodies that did not fit their source, newest first.

    Example: tidegate quarantine list --tenant acme --status waiting
    """
    return api.get("/v1/quarantine", **page.query, status=status)


@command(quarantine, "show", one)
def show_quarantined(api: Api, id_: EventId) -> Answer:
    """Show why one body does not fit, and what became of it.

    Example: tidegate quarantine show evt_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11
    """
    return api.get(f"/v1/quarantine/{part(id_)}")


@command(quarantine, "payload")
def payload(api: Api, id_: EventId) -> bytes:
    """Write one body to standard output, as its vendor sent it.

    Example: tidegate quarantine payload evt_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11 > body.json
    """
    return api.download(f"/v1/quarantine/{part(id_)}/payload")


@command(quarantine, "release", tables.released)
def release(
    api: Api,
    id_: EventId,
    note: Annotated[str, typer.Option(help="What was corrected; kept with it.", metavar="TEXT")],
) -> Answer:
    """Accept a body as an event under its source's current mapping.

    Example: tidegate quarantine release evt_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11
    --note "mapping set"
    """
    return api.post(f"/v1/quarantine/{part(id_)}/release", {"note": note})

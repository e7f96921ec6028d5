"""`tidegate quarantine ...`: bodies that did not fit their source, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.cli import tables
from streams.cli.terminal import (
    AsJson,
    Cursor,
    DataDir,
    Limit,
    Tenant,
    TokenFile,
    Url,
    connected,
    part,
    show,
    write_raw,
)

quarantine = typer.Typer(
    no_args_is_help=True, help="List, show and release bodies that did not fit their source."
)


@quarantine.command("list")
def list_quarantined(
    tenant: Tenant = None,
    status: Annotated[str | None, typer.Option(help="Only waiting, or only released.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List signed bodies that did not fit their source, newest first."""
    with connected(url, token_file, data_dir) as api:
        found = api.get(
            "/v1/quarantine", tenant_id=tenant, status=status, limit=limit, cursor=cursor
        )
        show(found, as_json, tables.quarantined)


@quarantine.command("show")
def show_quarantined(
    id_: Annotated[str, typer.Argument(metavar="ID")],
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Show why one body does not fit, and what became of it."""
    with connected(url, token_file, data_dir) as api:
        show(api.get(f"/v1/quarantine/{part(id_)}"), as_json, tables.quarantined_body)


@quarantine.command("payload")
def payload(
    id_: Annotated[str, typer.Argument(metavar="ID")],
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
) -> None:
    """Write one body to standard output, as its vendor sent it."""
    with connected(url, token_file, data_dir) as api:
        write_raw(api.download(f"/v1/quarantine/{part(id_)}/payload"))


@quarantine.command("release")
def release(
    id_: Annotated[str, typer.Argument(metavar="ID")],
    note: Annotated[str, typer.Option(help="What was mended; kept with it.")],
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Let a body in as an event, under its source's current mapping."""
    with connected(url, token_file, data_dir) as api:
        found = api.post(f"/v1/quarantine/{part(id_)}/release", {"note": note})
        show(found, as_json, tables.quarantined_body)

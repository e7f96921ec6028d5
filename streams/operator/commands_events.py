"""`tidegate events ...`: what became of deliveries, from a terminal."""

from __future__ import annotations

import typer

from streams.operator import tables
from streams.operator.terminal import (
    AsJson,
    Cursor,
    DataDir,
    Limit,
    Tenant,
    TokenFile,
    Url,
    connected,
    show,
)

events = typer.Typer(no_args_is_help=True, help="List events that were delivered again.")


@events.callback()
def _group() -> None:
    """Without it, a group of one command would be that command."""


@events.command("duplicates")
def list_duplicates(
    tenant: Tenant = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List events that were delivered again, newest duplicate first."""
    with connected(url, token_file, data_dir) as api:
        found = api.get("/v1/duplicates", tenant_id=tenant, limit=limit, cursor=cursor)
        show(found, as_json, tables.duplicates)

"""`tidegate events ...`: duplicates and unrouted events, from a terminal."""

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
)

events = typer.Typer(no_args_is_help=True, help="Events: delivered again, or without a job.")


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


@events.command("route")
def route(
    tenant: Annotated[str, typer.Option(help="Whose event it is.")],
    source: Annotated[str, typer.Option(help="The source it came from.")],
    dedup_key: Annotated[str, typer.Option(help="The key that tells it from others.")],
    note: Annotated[str, typer.Option(help="Why it gets its job now; kept with the command.")],
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Give an event its job if no route matched it on arrival and one matches now."""
    body = {"source": source, "dedup_key": dedup_key, "note": note}
    with connected(url, token_file, data_dir) as api:
        found = api.post(f"/v1/tenants/{part(tenant)}/events:route", body)
        show(found, as_json, tables.job)

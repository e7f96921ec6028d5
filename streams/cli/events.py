"""`tidegate events ...`: duplicates and unrouted events, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.cli import tables
from streams.cli.options import Cursor, Limit, Tenant
from streams.cli.terminal import Answer, Api, command, part

events = typer.Typer(no_args_is_help=True, help="Events: delivered again, or without a job.")


@command(events, "duplicates", tables.duplicates)
def list_duplicates(
    api: Api,
    tenant: Tenant = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Answer:
    """List events that were delivered again, newest duplicate first."""
    return api.get("/v1/duplicates", tenant_id=tenant, limit=limit, cursor=cursor)


@command(events, "route", tables.job)
def route(
    api: Api,
    tenant: Annotated[str, typer.Option(help="Whose event it is.")],
    source: Annotated[str, typer.Option(help="The source it came from.")],
    dedup_key: Annotated[str, typer.Option(help="Its dedup key.")],
    note: Annotated[str, typer.Option(help="Why it gets its job now; kept with the command.")],
) -> Answer:
    """Give an event its job if no route matched it on arrival and one matches now."""
    body = {"source": source, "dedup_key": dedup_key, "note": note}
    return api.post(f"/v1/tenants/{part(tenant)}/events:route", body)

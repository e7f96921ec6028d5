"""`tidegate tenants ...`: customers, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.api.tenants import cli_tables as tables
from streams.cli.changes import tell_changes
from streams.cli.operator_command import Answer, Api, command, part, seen
from streams.cli.options import Cursor, Limit, TenantId
from streams.cli.quantities import rate as parsed_rate

tenants = typer.Typer(no_args_is_help=True, help="List, show, set and disable tenants.")
SETTINGS = ("display_name", "rate", "weight", "limits")
"""What a `PUT` replaces, so that whoever changes one of them sends the others, too."""


@command(tenants, "list", tables.tenants)
def list_tenants(api: Api, limit: Limit = 50, cursor: Cursor = None) -> Answer:
    """List tenants by id, disabled and erased ones too.

    Example: tidegate tenants list
    """
    return api.get("/v1/tenants", limit=limit, cursor=cursor)


@command(tenants, "show", tables.tenant)
def show_tenant(api: Api, id_: TenantId) -> Answer:
    """Show a tenant and the names of its sources.

    Example: tidegate tenants show acme
    """
    return api.get(_path(id_))


@command(tenants, "set", tables.tenant)
def set_tenant(
    api: Api,
    id_: TenantId,
    display_name: Annotated[
        str | None, typer.Option(help="Its name for people.", metavar="TEXT")
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(help="Most deliveries in a time, as 600/60s.", metavar="COUNT/DURATION"),
    ] = None,
    no_rate: Annotated[bool, typer.Option("--no-rate", help="Do not limit deliveries.")] = False,
    weight: Annotated[
        float | None,
        typer.Option(
            help="Its share of the starts beside others that wait, 1 unless set.",
            metavar="N",
            min=0.01,
            max=100,
        ),
    ] = None,
) -> Answer:
    """Create a tenant, or change the settings that are given; the others stay as they are.

    A disabled tenant is enabled again.

    Example: tidegate tenants set acme --display-name Acme --rate 600/60s
    """
    if rate is not None and no_rate:
        raise typer.BadParameter("give --rate or --no-rate, not both")
    limit = None if rate is None else parsed_rate(rate, "--rate")
    known = seen(api, _path(id_))
    before = known.found
    wanted = {name: before[name] for name in SETTINGS if name in before} if before else {}
    wanted |= {} if display_name is None else {"display_name": display_name}
    wanted |= {"rate": limit} if limit or no_rate else {}
    wanted |= {} if weight is None else {"weight": weight}
    after = api.put(_path(id_), wanted, known)
    tell_changes(f"tenant {id_}", before, after, SETTINGS)
    return after


@command(tenants, "disable", tables.disabled_tenant)
def disable_tenant(api: Api, id_: TenantId) -> Answer:
    """Disable a tenant: its deliveries and submissions are refused; its data stays.

    `tidegate tenants set` enables it again.

    Example: tidegate tenants disable acme
    """
    return api.delete(_path(id_))


def _path(id_: str) -> str:
    return f"/v1/tenants/{part(id_)}"

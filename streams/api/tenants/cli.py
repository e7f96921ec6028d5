"""`tidegate tenants ...`: customers, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.api.tenants import cli_tables as tables
from streams.api.vault.cli_tables import erased
from streams.cli.api_client import CallFailed
from streams.cli.changes import tell_changes
from streams.cli.operator_command import Answer, Api, command, part, require_tenant, seen
from streams.cli.options import Cursor, Limit, TenantId
from streams.cli.quantities import rate as parsed_rate
from streams.cli.signing_secret import at_terminal

tenants = typer.Typer(no_args_is_help=True, help="List, show, set, disable and erase tenants.")
_ERASED_WITHIN_SECONDS = 120.0
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


@command(tenants, "erase", erased)
def erase_tenant(
    api: Api,
    id_: TenantId,
    note: Annotated[
        str, typer.Option(help="Why; kept for ever, so name nobody in it.", metavar="TEXT")
    ],
    confirm: Annotated[
        str | None,
        typer.Option(help="The tenant's id once more; a terminal asks for it.", metavar="ID"),
    ] = None,
) -> Answer:
    """Destroy a tenant's data keys and secrets for ever, so that nothing opens its bodies.

    Its jobs are cancelled, and its id is not given again. Nothing takes this back.

    Example: tidegate tenants erase acme --note "case 4711"
    """
    require_tenant(api, id_)
    typed = confirm if confirm is not None or not at_terminal() else _asked(id_)
    if typed is None:
        raise typer.BadParameter("there is no terminal to ask: give --confirm, with the id again")
    if typed != id_:
        raise CallFailed(f"{typed!r} is not {id_!r}: nothing was erased")
    return api.post(f"{_path(id_)}/erase", {"note": note}, within=_ERASED_WITHIN_SECONDS)


def _asked(id_: str) -> str:
    told = f"All bodies and secrets of tenant {id_} will be lost for ever. Type its id"
    return str(typer.prompt(told, err=True))


def _path(id_: str) -> str:
    return f"/v1/tenants/{part(id_)}"

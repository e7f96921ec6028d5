"""`tidegate limits set | remove`: the limits that a tenant has of its own, from a terminal."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from streams.api.tenants.cli import SETTINGS
from streams.cli.api_client import CallFailed
from streams.cli.operator_command import Answer, Api, Seen, part
from streams.cli.options import OfTenant
from streams.tenants.limits import SCOPES

LimitName = Annotated[str, typer.Argument(metavar="LIMIT", help="Its name.")]


@dataclass(frozen=True)
class Declared:
    """A limit as the options declare it, in the form of the topology file."""

    scope: Annotated[
        str, typer.Option(help=f"What it counts by: {', '.join(SCOPES)}.", metavar="SCOPE")
    ] = "tenant"
    match: Annotated[
        str | None, typer.Option(help="A glob of the values that it is for.", metavar="GLOB")
    ] = None
    by: Annotated[
        str | None, typer.Option(help="With scope key: on the job.", metavar="JMESPATH")
    ] = None
    concurrency: Annotated[
        int | None, typer.Option(help="How many run at once.", metavar="N", min=1)
    ] = None
    rate: Annotated[
        str | None, typer.Option(help="How many start in a time.", metavar="COUNT/UNIT")
    ] = None
    burst: Annotated[
        int | None, typer.Option(help="How many of them at once.", metavar="N", min=1)
    ] = None


def set_limit(api: Api, name: LimitName, tenant: OfTenant, declared: Declared) -> Answer:
    """Give a tenant a limit of its own, or change it as a whole; it holds at once.

    One that has the name of a limit of the topology replaces it for this tenant.

    Example: tidegate limits set refunds --tenant acme --scope job_type --match refund
    --concurrency 3
    """
    limit = {key: value for key, value in asdict(declared).items() if value is not None}
    known, found = _enabled(api, tenant)
    return _put(api, tenant, known, [*_others(found, name), {"name": name, **limit}])


def remove_limit(api: Api, name: LimitName, tenant: OfTenant) -> Answer:
    """Remove a limit that a tenant has of its own; the topology's hold again.

    Example: tidegate limits remove refunds --tenant acme
    """
    known, found = _enabled(api, tenant)
    others = _others(found, name)
    if len(others) == len(found["limits"]):
        show = api.command("tenants", "show", tenant)
        raise CallFailed(f"tenant {tenant!r} has no limit {name!r} of its own: see `{show}`")
    return _put(api, tenant, known, others)


def _others(found: Answer, name: str) -> list[Answer]:
    return [limit for limit in found["limits"] if limit["name"] != name]


def _enabled(api: Api, tenant: str) -> tuple[Seen, Answer]:
    """The tenant, as it is seen and what it is.

    Raises:
        CallFailed: it is unknown, or disabled: setting its limits would enable it.
    """
    found, etag = api.look(_path(tenant))
    if found["disabled"]:
        enable = api.command("tenants", "set", tenant)
        raise CallFailed(f"tenant {tenant!r} is disabled: enable it first with `{enable}`")
    return Seen(found, etag), found


def _put(api: Api, tenant: str, known: Seen, limits: list[Answer]) -> Answer:
    found = known.found or {}
    kept = {name: found[name] for name in SETTINGS if name in found}
    return api.put(_path(tenant), kept | {"limits": limits}, known)


def _path(tenant: str) -> str:
    return f"/v1/tenants/{part(tenant)}"

"""`tidegate limits ...`: how many jobs run at once and start in a time, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.api.limits import cli_tables as limit_tables
from streams.api.limits import cli_tenant as tenant_limits
from streams.cli.api_client import CallFailed
from streams.cli.operator_command import Answer, Api, command
from streams.cli.options import Page
from streams.limits.paused import SCOPES

limits = typer.Typer(
    no_args_is_help=True,
    help="What fills each limit; tenants' own; pause a tenant, type, pool, source or tool.",
)

LimitName = Annotated[str, typer.Argument(metavar="LIMIT", help="Its name in the topology.")]
Scope = Annotated[str, typer.Argument(metavar="SCOPE", help=f"What it is: {', '.join(SCOPES)}.")]
Value = Annotated[
    str, typer.Argument(metavar="VALUE", help="The tenant, type, pool, source, tool or worker.")
]
Reason = Annotated[str, typer.Option(help="Why; everybody is shown it.", metavar="TEXT")]
By = Annotated[str | None, typer.Option(help="Who does it, if not the operator.", metavar="PERSON")]
Key = Annotated[
    str | None,
    typer.Option(help="Only of this value: a type, a source, a customer.", metavar="VALUE"),
]


@limits.callback()
def _group() -> None:
    """Show what fills each limit and what waits for it; pause a tenant, type, pool, source or tool.

    The topology file declares limits, and `set` gives a tenant some of its own. Each value that a
    limit counts by has a bucket: a line.
    """


@command(limits, "list", limit_tables.listing)
def list_limits(
    api: Api,
    page: Page,
    name: Annotated[
        str | None, typer.Option(help="Only the limit of this name.", metavar="LIMIT")
    ] = None,
    key: Key = None,
) -> Answer:
    """List limits with what fills each bucket, how many jobs wait for it, and the longest wait.

    `used` are the jobs that run now, of the limit's cap. Buckets in which no job runs or waits
    have no line.

    Example: tidegate limits list --tenant acme
    """
    return api.get("/v1/limits", **page.query, name=name, key=key)


@command(limits, "show", limit_tables.one)
def show_limit(api: Api, name: LimitName, page: Page, key: Key = None) -> Answer:
    """Show one limit: what it counts by, its cap and rate, and its buckets.

    `holds` says whether the cap is of all jobs, or of those in each partition of the dispatcher.

    Example: tidegate limits show one_a_customer --key ann
    """
    found = api.get("/v1/limits", **page.query, name=name, key=key)
    if not found["limits"] and page.cursor is None:
        known = f"`{api.command('limits', 'list')}` names all"
        raise CallFailed(f"there is no limit {name!r}: {known}")
    return found


command(limits, "set", limit_tables.of_tenant)(tenant_limits.set_limit)
command(limits, "remove", limit_tables.of_tenant)(tenant_limits.remove_limit)


@command(limits, "pause", limit_tables.paused)
def pause(
    api: Api,
    scope: Scope,
    value: Value,
    reason: Reason,
    by: By = None,
) -> Answer:
    """Start nothing more of a tenant, job type, pool, source or tool; what runs goes on.

    Events and submissions are accepted as before, and their jobs wait. `jobs show` and
    `limits list` say who paused it, when and why.

    Example: tidegate limits pause job_type refund --reason "the bank is down" --by ann
    """
    found = api.post("/v1/limits/pause", _body(scope, value, by) | {"reason": reason})
    if found["warning"]:
        typer.echo(f"warning: {found['warning']}", err=True)
    return found


@command(limits, "resume", limit_tables.resumed)
def resume(api: Api, scope: Scope, value: Value, by: By = None) -> Answer:
    """Let what was paused start again, also if nothing declares it any more.

    Example: tidegate limits resume job_type refund
    """
    return api.post("/v1/limits/resume", _body(scope, value, by))


def _body(scope: str, value: str, by: str | None) -> dict[str, str]:
    return {"scope": scope, "value": value} | ({} if by is None else {"by": by})

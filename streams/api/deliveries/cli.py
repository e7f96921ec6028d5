"""`tidegate deliveries ...`: what endpoints get, from a terminal."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from streams.api.deliveries import cli_tables as delivery_tables
from streams.cli.api_client import CallFailed, NoAnswer
from streams.cli.operator_command import Answer, Api, command, part
from streams.cli.options import Id, OfTenant, Page
from streams.cli.quantities import moment
from streams.cli.tables import number_matched
from streams.serde.delivery_states import NAMES, RECOVERABLE

deliveries = typer.Typer(
    no_args_is_help=True, help="List, show, retry and recover outgoing deliveries."
)

_BETWEEN_LOOKS_SECONDS = 0.5
_BEGUN_WITHIN_SECONDS = 60.0
"""How long a recovery may take to begin while no other one runs for its endpoint."""

_STATUSES = ", ".join(NAMES)
Status = Annotated[
    str | None, typer.Option(help=f"Only in this state: {_STATUSES}.", metavar="STATUS")
]


@command(deliveries, "list", delivery_tables.deliveries)
def list_deliveries(
    api: Api,
    page: Page,
    endpoint: Annotated[
        str | None, typer.Option(help="Only to this endpoint.", metavar="ENDPOINT")
    ] = None,
    status: Status = None,
    event: Annotated[
        str | None, typer.Option(help="Only of this event.", metavar="EVENT_ID")
    ] = None,
    job: Annotated[str | None, typer.Option(help="Only of this job.", metavar="JOB_ID")] = None,
    since: Annotated[
        str | None, typer.Option(help="Made since then: RFC 3339, or 2h ago.", metavar="TIME")
    ] = None,
) -> Answer:
    """List deliveries, newest first.

    Example: tidegate deliveries list --tenant acme --endpoint crm --status parked
    """
    return api.get(
        "/v1/deliveries",
        **page.query,
        endpoint_id=endpoint,
        status=status,
        event_id=event,
        job_id=job,
        since=None if since is None else moment(since, "--since"),
    )


@command(deliveries, "show", delivery_tables.delivery)
def show_delivery(api: Api, id_: Id) -> Answer:
    """Show one delivery with all its attempts that are kept.

    Example: tidegate deliveries show dlv_4q0c1k7d2tmv8bq1f0p6a5e3ds
    """
    found = api.get(f"/v1/deliveries/{part(id_)}")
    if (waits := found.get("waits")) and (helps := waits.get("remedy")):
        waits["command"] = api.command_of(helps)
    return found


@command(deliveries, "retry", delivery_tables.retried)
def retry(api: Api, id_: Id) -> Answer:
    """Make one delivery due now, whatever its status is.

    Exit codes: 0 it is due; 1 it was refused, or the delivery stage has not taken it within 5 s.

    Example: tidegate deliveries retry dlv_4q0c1k7d2tmv8bq1f0p6a5e3ds
    """
    return api.post(f"/v1/deliveries/{part(id_)}/retry", {})


@command(deliveries, "recover", delivery_tables.recovery)
def recover(
    api: Api,
    endpoint: Annotated[str, typer.Argument(metavar="ENDPOINT")],
    tenant: OfTenant,
    since: Annotated[
        str, typer.Option(help="Those made since then: RFC 3339, or 2h ago.", metavar="TIME")
    ],
    until: Annotated[
        str | None,
        typer.Option(help="Those made before then: RFC 3339, or 1h ago.", metavar="TIME"),
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(
            help=f"Only in this state: {_STATUSES}. ({' and '.join(RECOVERABLE)} by default)",
            metavar="STATUS",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    key: Annotated[
        str | None,
        typer.Option(help="Recover once for this key, however often it is sent.", metavar="KEY"),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Wait until all are due; standard error counts them.")
    ] = False,
) -> Answer:
    """Make the deliveries of an endpoint due that were parked or are dead, in their order.

    Exit codes: 0 it has begun, or with --watch ended; 1 it was refused, or did not begin in time.

    Example: tidegate deliveries recover crm --tenant acme --since 2h --status parked --dry-run

    Example: tidegate deliveries recover crm --tenant acme --since 2h --watch
    """
    if dry_run and watch:
        raise typer.BadParameter("give --dry-run or --watch, not both")
    body: Answer = {"since": moment(since, "--since"), "dry_run": dry_run}
    body |= {} if until is None else {"until": moment(until, "--until")}
    body |= {} if status is None else {"status": status}
    where = f"/v1/tenants/{part(tenant)}/endpoints/{part(endpoint)}"
    begun = api.post(f"{where}/recover", body, key)
    return _watched(api, where, begun) if watch else begun


def _watched(api: Api, where: str, begun: Answer) -> Answer:
    """A recovery as it ended; standard error shows its progress.

    Raises:
        CallFailed: no delivery stage has begun it.
    """
    latest, last = time.monotonic() + _BEGUN_WITHIN_SECONDS, begun["recovery"]
    told = -1
    while last is None or last["ended_at"] is None:
        if last is not None and last["recovered"] != told:
            told = last["recovered"]
            typer.echo(f"recovered {told} of {number_matched(begun)}", err=True)
        time.sleep(_BETWEEN_LOOKS_SECONDS)
        try:
            shown = api.get(where)["state"]["recovery"]
        except NoAnswer:  # its process may be replaced at this moment
            if last is None and time.monotonic() > latest:
                raise
            continue
        if shown is not None and shown["command_id"] == begun["command_id"]:
            last = shown
        elif last is not None:
            break  # A later recovery has begun, so this one has ended.
        elif time.monotonic() > latest and (shown is None or shown["ended_at"]):
            raise CallFailed(
                f"no recovery has begun within {_BEGUN_WITHIN_SECONDS:.0f} s: is "
                "`tidegate delivery` running? The command stays valid. A --key that began a "
                "recovery before begins no other"
            )
    return {**begun, "recovery": last, "answered": True}

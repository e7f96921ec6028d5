"""`tidegate schedules ...`: jobs that are made by the clock, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.api.jobs.cli_submission import input_value
from streams.api.schedules import cli_tables as tables
from streams.cli.operator_command import Answer, Api, command, part, require_tenant
from streams.cli.options import OfTenant, Page
from streams.cli.quantities import duration, moment

schedules = typer.Typer(no_args_is_help=True, help="Jobs that are made by the clock.")

ScheduleId = Annotated[str, typer.Argument(metavar="SCHEDULE_ID")]
Why = Annotated[str, typer.Option("--note", help="Why; kept with it.", metavar="TEXT")]


@schedules.callback()
def _group() -> None:
    """Create schedules, list and show them, pause, resume and delete them."""


@command(schedules, "create", tables.schedule)
def create(
    api: Api,
    schedule_id: ScheduleId,
    tenant: OfTenant,
    job: Annotated[str, typer.Option(help="Which handler runs.", metavar="TYPE")],
    cron: Annotated[
        str | None, typer.Option(help="When, as '0 9 * * mon-fri'.", metavar="FIELDS")
    ] = None,
    every: Annotated[
        str | None, typer.Option(help="An interval instead, as 15m.", metavar="DURATION")
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="Once: RFC 3339, or 2h from now.", metavar="TIME")
    ] = None,
    tz: Annotated[
        str, typer.Option("--tz", help="Whose clock --cron follows.", metavar="ZONE")
    ] = "UTC",
    input_: Annotated[
        str,
        typer.Option(
            "--input",
            help="Each job's input: JSON, @FILE, or - for standard input.",
            metavar="JSON",
        ),
    ] = "{}",
    missed: Annotated[
        str,
        typer.Option(help="After an outage: latest, skip, all or all(N).", metavar="POLICY"),
    ] = "latest",
    grace: Annotated[
        str, typer.Option(help="Later than this, a time is missed.", metavar="DURATION")
    ] = "60s",
    overlap: Annotated[
        str,
        typer.Option(
            help="While the last job lives: allow, skip, queue_one or cancel_running.",
            metavar="POLICY",
        ),
    ] = "allow",
    window: Annotated[
        str | None,
        typer.Option(help="Be later by a fixed part of this time.", metavar="DURATION"),
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", help="No earlier time counts.", metavar="TIME")
    ] = None,
    until: Annotated[str | None, typer.Option(help="No later time counts.", metavar="TIME")] = None,
    paused: Annotated[
        bool, typer.Option("--paused", help="It makes no job until resumed.")
    ] = False,
    note: Why = "",
) -> Answer:
    """Create a schedule, or change the one of this id.

    Example: tidegate schedules create report --tenant acme --job report --cron '0 9 * * mon-fri'
    """
    given = {
        "id": schedule_id,
        "job": job,
        "input": input_value(input_),
        "cron": cron,
        "every_seconds": None if every is None else duration(every, "--every"),
        "at": None if at is None else moment(at, "--at", ahead=True),
        "tz": tz,
        "missed": missed,
        "grace_seconds": duration(grace, "--grace"),
        "overlap": overlap,
        "window_seconds": None if window is None else duration(window, "--window"),
        "from": None if from_ is None else moment(from_, "--from", ahead=True),
        "until": None if until is None else moment(until, "--until", ahead=True),
        "paused": paused or None,
        "note": note,
    }
    require_tenant(api, tenant)
    body = {name: value for name, value in given.items() if value is not None or name == "input"}
    made = api.post(f"/v1/tenants/{part(tenant)}/schedules", body)
    if made.get("warning"):
        typer.echo(f"warning: {made['warning']}", err=True)
    return made


@command(schedules, "list", tables.schedules)
def list_schedules(api: Api, page: Page) -> Answer:
    """List schedules, newest first.

    Example: tidegate schedules list --tenant acme
    """
    return api.get("/v1/schedules", **page.query)


@command(schedules, "show", tables.schedule)
def show(api: Api, schedule_id: ScheduleId, tenant: OfTenant) -> Answer:
    """Show a schedule, its next five times, and its last job.

    Example: tidegate schedules show report --tenant acme
    """
    return api.get(_path(tenant, schedule_id))


@command(schedules, "pause", tables.schedule)
def pause(api: Api, schedule_id: ScheduleId, tenant: OfTenant, note: Why = "") -> Answer:
    """Stop a schedule: times that come until it is resumed make no job.

    Example: tidegate schedules pause report --tenant acme --note "the shop is closed"
    """
    return api.post(f"{_path(tenant, schedule_id)}/pause", {"note": note})


@command(schedules, "resume", tables.schedule)
def resume(api: Api, schedule_id: ScheduleId, tenant: OfTenant, note: Why = "") -> Answer:
    """Let a schedule go on with its next time.

    Example: tidegate schedules resume report --tenant acme
    """
    return api.post(f"{_path(tenant, schedule_id)}/resume", {"note": note})


@command(schedules, "delete", tables.deleted_schedule)
def delete(api: Api, schedule_id: ScheduleId, tenant: OfTenant) -> Answer:
    """Remove a schedule; the jobs that it made stay.

    Example: tidegate schedules delete report --tenant acme
    """
    return api.delete(_path(tenant, schedule_id))


def _path(tenant: str, schedule_id: str) -> str:
    return f"/v1/tenants/{part(tenant)}/schedules/{part(schedule_id)}"

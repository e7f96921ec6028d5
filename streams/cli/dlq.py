"""`tidegate dlq ...`: jobs and records that failed for good, from a terminal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from streams.cli import tables
from streams.cli.operator_command import Answer, Api, command, page_by_page, part
from streams.cli.options import Cursor, DryRun, Id, Limit, Tenant

dlq = typer.Typer(no_args_is_help=True, help="List, show and replay dead letters.")

Stage = Annotated[str | None, typer.Option(help="Only of this stage.")]
Reason = Annotated[str | None, typer.Option(help="Only for this reason.")]
Topic = Annotated[str | None, typer.Option(help="Only records of this topic.")]


@command(dlq, "list", tables.dead_letters)
def list_dead_letters(
    api: Api,
    tenant: Tenant = None,
    kind: Annotated[str | None, typer.Option(help="Only `job`, or only `record`.")] = None,
    stage: Stage = None,
    reason: Reason = None,
    topic: Topic = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Answer:
    """List dead letters, newest first.

    Example: tidegate dlq list --tenant acme --reason permanent_error
    """
    return api.get(
        "/v1/dlq", tenant_id=tenant, kind=kind, stage=stage, reason=reason, topic=topic,
        limit=limit, cursor=cursor,
    )  # fmt: skip


@command(dlq, "show", tables.dead_letter)
def show_dead_letter(
    api: Api,
    id_: Id,
) -> Answer:
    """Show one dead letter with its job, or its record's bytes.

    Example: tidegate dlq show job_d8utnr6f0dbu0aulueh5k9hsqk
    """
    return api.get(f"/v1/dlq/{part(id_)}")


@command(dlq, "replay", tables.replayed)
def replay(
    api: Api,
    note: Annotated[str, typer.Option(help="Why it may run again; kept with it.")],
    id_: Annotated[str | None, typer.Argument(metavar="[ID]")] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Replay all records that were not replayed yet.")
    ] = False,
    stage: Stage = None,
    reason: Reason = None,
    topic: Topic = None,
    since: Annotated[str | None, typer.Option(help="Dead since then, RFC 3339.")] = None,
    until: Annotated[str | None, typer.Option(help="Dead before then, RFC 3339.")] = None,
    dry_run: DryRun = False,
    fresh_scope: Annotated[
        bool, typer.Option("--fresh-scope", help="Begin the job's side effects again, too.")
    ] = False,
    repeat_effect: Annotated[
        list[str] | None,
        typer.Option(help="With --fresh-scope: begin this effect again although it is done."),
    ] = None,
    type_: Annotated[str | None, typer.Option("--type", help="Run the job as this type.")] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Replay although replayed before.")
    ] = False,
    key: Annotated[
        str | None, typer.Option(help="Replay once for this key, however often it is sent.")
    ] = None,
) -> Answer:
    """Run a dead job, or one in review, again as a new job; send dead records in again.

    Example: tidegate dlq replay job_d8utnr6f0dbu0aulueh5k9hsqk --note "address added"
    """
    filters = {"stage": stage, "reason": reason, "topic": topic, "since": since, "until": until}
    alone = {
        "fresh_scope": fresh_scope, "again": again, "repeat_effects": repeat_effect or [],
        "type": type_,
    }  # fmt: skip
    _check(id_, all_, {**filters, "dry_run": dry_run}, {**alone, "key": key})
    body: dict[str, Any] = {"incident_note": note}
    if id_ is None:
        given = {name: value for name, value in filters.items() if value is not None}
        body |= {**given, "dry_run": dry_run}
        return page_by_page(api, "/v1/dlq:replay", body, "replayed")
    body |= {name: value for name, value in alone.items() if value}
    return api.post(f"/v1/dlq/{part(id_)}/replay", body, key)


def _check(id_: str | None, all_: bool, of_all: dict[str, Any], of_one: dict[str, Any]) -> None:
    if all_ == (id_ is not None):
        raise typer.BadParameter("name one ID, or --all")
    for name, value in (of_one if all_ else of_all).items():
        if value:
            flag = f"--{name.replace('_', '-').removesuffix('s')}"
            with_what = "one ID" if all_ else "--all"
            raise typer.BadParameter(f"{flag} goes with {with_what}")

"""`tidegate dlq ...`: jobs and records that failed for good, from a terminal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from streams.cli import tables
from streams.cli.terminal import (
    AsJson,
    Cursor,
    DataDir,
    Key,
    Limit,
    Tenant,
    TokenFile,
    Url,
    connected,
    page_by_page,
    part,
    show,
)

dlq = typer.Typer(no_args_is_help=True, help="List, show and replay dead letters.")

Stage = Annotated[str | None, typer.Option(help="Only of this stage.")]
Reason = Annotated[str | None, typer.Option(help="Only for this reason.")]
Topic = Annotated[str | None, typer.Option(help="Only records of this topic.")]


@dlq.command("list")
def list_dead_letters(
    tenant: Tenant = None,
    kind: Annotated[str | None, typer.Option(help="Only `job`, or only `record`.")] = None,
    stage: Stage = None,
    reason: Reason = None,
    topic: Topic = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List dead letters, newest first."""
    with connected(url, token_file, data_dir) as api:
        found = api.get(
            "/v1/dlq", tenant_id=tenant, kind=kind, stage=stage, reason=reason, topic=topic,
            limit=limit, cursor=cursor,
        )  # fmt: skip
        show(found, as_json, tables.dead_letters)


@dlq.command("show")
def show_dead_letter(
    id_: Annotated[str, typer.Argument(metavar="ID")],
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter with its job, or its record's bytes."""
    with connected(url, token_file, data_dir) as api:
        show(api.get(f"/v1/dlq/{part(id_)}"), as_json, tables.dead_letter)


@dlq.command("replay")
def replay(
    note: Annotated[str, typer.Option(help="Why it may run again; kept with it.")],
    id_: Annotated[str | None, typer.Argument(metavar="[ID]")] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="All records that were not sent in again yet.")
    ] = False,
    stage: Stage = None,
    reason: Reason = None,
    topic: Topic = None,
    since: Annotated[str | None, typer.Option(help="Dead since then, RFC 3339.")] = None,
    until: Annotated[str | None, typer.Option(help="Dead before then, RFC 3339.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Of --all: count only.")] = False,
    fresh_scope: Annotated[
        bool, typer.Option("--fresh-scope", help="Begin the job's side effects again, too.")
    ] = False,
    repeat_effect: Annotated[
        list[str] | None,
        typer.Option(help="Of --fresh-scope: this effect is done, and is begun again."),
    ] = None,
    type_: Annotated[str | None, typer.Option("--type", help="Run the job as this type.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Though it was replayed before.")] = False,
    key: Key = None,
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Run a dead job, or one in review, again as a new job; send dead records in again."""
    filters = {"stage": stage, "reason": reason, "topic": topic, "since": since, "until": until}
    alone = {
        "fresh_scope": fresh_scope, "again": again, "repeat_effects": repeat_effect or [],
        "type": type_,
    }  # fmt: skip
    _check(id_, all_, {**filters, "dry_run": dry_run}, {**alone, "key": key})
    body: dict[str, Any] = {"incident_note": note}
    with connected(url, token_file, data_dir) as api:
        if id_ is None:
            given = {name: value for name, value in filters.items() if value is not None}
            body |= {**given, "dry_run": dry_run}
            show(page_by_page(api, "/v1/dlq:replay", body, "replayed"), as_json, tables.bulk)
            return
        body |= {name: value for name, value in alone.items() if value}
        found = api.post(f"/v1/dlq/{part(id_)}/replay", body, key)
        show(found, as_json, tables.replayed)


def _check(id_: str | None, all_: bool, of_all: dict[str, Any], of_one: dict[str, Any]) -> None:
    if all_ == (id_ is not None):
        raise typer.BadParameter("name one ID, or --all")
    for name, value in (of_one if all_ else of_all).items():
        if value:
            flag = f"--{name.replace('_', '-').removesuffix('s')}"
            with_what = "one ID" if all_ else "--all"
            raise typer.BadParameter(f"{flag} goes with {with_what}")

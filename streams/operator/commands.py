"""`tidegate jobs ...` and `dlq ...`: the operator's API from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.operator import tables
from streams.operator.terminal import (
    AsJson,
    Cursor,
    DataDir,
    Key,
    Limit,
    Status,
    Tenant,
    TokenFile,
    Url,
    connected,
    part,
    show,
    write_raw,
)

jobs = typer.Typer(no_args_is_help=True, help="Show, list and cancel jobs.")
dlq = typer.Typer(no_args_is_help=True, help="List, show and replay dead letters.")


@jobs.command("show")
def show_job(
    job_id: str,
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Show one job with its effects, steps and progress."""
    with connected(url, token_file, data_dir) as api:
        show(api.get(f"/v1/jobs/{part(job_id)}"), as_json, tables.job)


@jobs.command("list")
def list_jobs(
    tenant: Tenant = None,
    status: Status = None,
    type_: Annotated[str | None, typer.Option("--type", help="Only of this type.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    with connected(url, token_file, data_dir) as api:
        found = api.get(
            "/v1/jobs", tenant_id=tenant, status=status, type=type_, limit=limit, cursor=cursor
        )
        show(found, as_json, tables.jobs)


@jobs.command("cancel")
def cancel_job(
    job_id: str,
    reason: Annotated[str, typer.Option(help="Why; kept with the job.")] = "",
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a job that has not ended."""
    with connected(url, token_file, data_dir) as api:
        found = api.post(f"/v1/jobs/{part(job_id)}/cancel", {"reason": reason})
        show(found, as_json, tables.job)


@jobs.command("payload")
def job_payload(
    job_id: str, url: Url = None, token_file: TokenFile = None, data_dir: DataDir = None
) -> None:
    """Write the raw body of a job's event to standard output, as its vendor sent it."""
    with connected(url, token_file, data_dir) as api:
        write_raw(api.download(f"/v1/jobs/{part(job_id)}/payload"))


@dlq.command("list")
def list_dead_letters(
    tenant: Tenant = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List dead letters, newest first."""
    with connected(url, token_file, data_dir) as api:
        found = api.get("/v1/dlq", tenant_id=tenant, limit=limit, cursor=cursor)
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
    id_: Annotated[str, typer.Argument(metavar="ID")],
    note: Annotated[str, typer.Option(help="Why the job may run again; kept with it.")],
    fresh_scope: Annotated[
        bool, typer.Option("--fresh-scope", help="Do finished side effects again, too.")
    ] = False,
    key: Key = None,
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Run a dead job, or one that needs review, again as a new job."""
    body = {"incident_note": note, "fresh_scope": fresh_scope}
    with connected(url, token_file, data_dir) as api:
        show(api.post(f"/v1/dlq/{part(id_)}/replay", body, key), as_json, tables.job)

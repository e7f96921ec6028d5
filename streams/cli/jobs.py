"""`tidegate jobs ...`: the operator's API from a terminal."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer

from streams.cli import tables
from streams.cli.terminal import (
    AsJson,
    Cursor,
    DataDir,
    Limit,
    Status,
    Tenant,
    TokenFile,
    Url,
    connected,
    page_by_page,
    part,
    show,
    write_raw,
)

jobs = typer.Typer(no_args_is_help=True, help="Show, list, move, settle and cancel jobs.")


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


@jobs.command("held")
def list_held(
    tenant: Tenant = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List what keeps jobs from running: no worker, no pool, no topic, a disabled tenant."""
    with connected(url, token_file, data_dir) as api:
        found = api.get("/v1/held", tenant_id=tenant, limit=limit, cursor=cursor)
        show(found, as_json, tables.held)


@jobs.command("move")
def move(
    pool: Annotated[str, typer.Option(help="Where it waits from now on.")],
    note: Annotated[str, typer.Option(help="Why; kept with the command.")],
    job_id: Annotated[str | None, typer.Argument()] = None,
    all_: Annotated[bool, typer.Option("--all", help="All that wait, of --type.")] = False,
    type_: Annotated[str | None, typer.Option("--type", help="Of --all: of this type.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Of --all: only this tenant's.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Of --all: count only.")] = False,
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Let a job, or all waiting jobs of a type, wait in another pool."""
    if all_ == (job_id is not None) or all_ != (type_ is not None):
        raise typer.BadParameter("name one JOB_ID, or --all with --type")
    if not all_ and (dry_run or tenant):
        raise typer.BadParameter("--dry-run and --tenant go with --all")
    body: dict[str, Any] = {"pool": pool, "note": note}
    with connected(url, token_file, data_dir) as api:
        if job_id is not None:
            show(api.post(f"/v1/jobs/{part(job_id)}/move", body), as_json, tables.job)
            return
        body |= {"type": type_, "tenant_id": tenant, "dry_run": dry_run}
        show(page_by_page(api, "/v1/jobs:move", body, "moved"), as_json, tables.bulk)


@jobs.command("settle")
def settle(
    job_id: str,
    action: Annotated[str, typer.Argument(help="The effect, as `jobs show` names it.")],
    note: Annotated[str, typer.Option(help="How it was found out; kept with the effect.")],
    done: Annotated[
        str | None,
        typer.Option(metavar="RESULT", help="It was done: what the handler gets of it, as JSON."),
    ] = None,
    not_done: Annotated[bool, typer.Option("--not-done", help="It was not done.")] = False,
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Say what became of an effect of a job in review; then the job goes on."""
    if (done is not None) == not_done:
        raise typer.BadParameter("give --done RESULT or --not-done")
    body: dict[str, Any] = {"status": "not_done" if not_done else "done", "note": note}
    if done is not None:
        body["result"] = _json(done)
    path = f"/v1/jobs/{part(job_id)}/effects/{part(action)}/settle"
    with connected(url, token_file, data_dir) as api:
        show(api.post(path, body), as_json, tables.job)


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        raise typer.BadParameter(
            f"{text!r} is not JSON: null for none, and a text in quotes, as '\"re_1\"'",
            param_hint="--done",
        ) from None


@jobs.command("payload")
def job_payload(
    job_id: str, url: Url = None, token_file: TokenFile = None, data_dir: DataDir = None
) -> None:
    """Write the raw body of a job's event to standard output, as its vendor sent it."""
    with connected(url, token_file, data_dir) as api:
        write_raw(api.download(f"/v1/jobs/{part(job_id)}/payload"))

"""`tidegate jobs ...`: the operator's API from a terminal."""

from __future__ import annotations

from typing import Annotated, Any, get_args

import orjson
import typer

from streams.cli import tables
from streams.cli.options import Cursor, DryRun, Limit, Tenant
from streams.cli.terminal import Answer, Api, command, page_by_page, part
from streams.serde.records import JobStatus

jobs = typer.Typer(no_args_is_help=True, help="Show, list, move, settle and cancel jobs.")


@command(jobs, "show", tables.job)
def show_job(
    api: Api,
    job_id: str,
) -> Answer:
    """Show one job with its effects, steps and progress."""
    return api.get(f"/v1/jobs/{part(job_id)}")


@command(jobs, "list", tables.jobs)
def list_jobs(
    api: Api,
    tenant: Tenant = None,
    status: Annotated[
        str | None, typer.Option(help=f"Only in this state: {', '.join(get_args(JobStatus))}.")
    ] = None,
    type_: Annotated[str | None, typer.Option("--type", help="Only of this type.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Answer:
    """List jobs, newest first."""
    return api.get(
        "/v1/jobs", tenant_id=tenant, status=status, type=type_, limit=limit, cursor=cursor
    )


@command(jobs, "cancel", tables.job)
def cancel_job(
    api: Api,
    job_id: str,
    reason: Annotated[str, typer.Option(help="Why; kept with the job.")] = "",
) -> Answer:
    """Cancel a job that has not ended."""
    return api.post(f"/v1/jobs/{part(job_id)}/cancel", {"reason": reason})


@command(jobs, "held", tables.held)
def list_held(
    api: Api,
    tenant: Tenant = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Answer:
    """List what keeps jobs from running: no worker, no pool, no topic, a disabled tenant."""
    return api.get("/v1/held", tenant_id=tenant, limit=limit, cursor=cursor)


@command(jobs, "move", tables.moved)
def move(
    api: Api,
    pool: Annotated[str, typer.Option(help="Pool in which it waits from now on.")],
    note: Annotated[str, typer.Option(help="Why; kept with the command.")],
    job_id: Annotated[str | None, typer.Argument()] = None,
    all_: Annotated[bool, typer.Option("--all", help="Move all waiting jobs of --type.")] = False,
    type_: Annotated[str | None, typer.Option("--type", help="With --all: the jobs' type.")] = None,
    tenant: Annotated[str | None, typer.Option(help="With --all: only this tenant's.")] = None,
    dry_run: DryRun = False,
) -> Answer:
    """Let a job, or all waiting jobs of a type, wait in another pool."""
    if all_ == (job_id is not None) or all_ != (type_ is not None):
        raise typer.BadParameter("name one JOB_ID, or --all with --type")
    if not all_ and (dry_run or tenant):
        raise typer.BadParameter("--dry-run and --tenant go with --all")
    body: dict[str, Any] = {"pool": pool, "note": note}
    if job_id is not None:
        return api.post(f"/v1/jobs/{part(job_id)}/move", body)
    body |= {"type": type_, "tenant_id": tenant, "dry_run": dry_run}
    return page_by_page(api, "/v1/jobs:move", body, "moved")


@command(jobs, "settle", tables.job)
def settle(
    api: Api,
    job_id: str,
    action: Annotated[str, typer.Argument(help="The effect, as `jobs show` names it.")],
    note: Annotated[str, typer.Option(help="How you know; kept with the effect.")],
    done: Annotated[
        str | None,
        typer.Option(
            metavar="RESULT", help="It was done; the handler gets this JSON as its result."
        ),
    ] = None,
    not_done: Annotated[bool, typer.Option("--not-done", help="It was not done.")] = False,
) -> Answer:
    """Record whether an effect of a job in review was done; then the job goes on."""
    if (done is not None) == not_done:
        raise typer.BadParameter("give --done RESULT or --not-done")
    body: dict[str, Any] = {"status": "not_done" if not_done else "done", "note": note}
    if done is not None:
        body["result"] = _json(done)
    path = f"/v1/jobs/{part(job_id)}/effects/{part(action)}/settle"
    return api.post(path, body)


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        raise typer.BadParameter(
            f"{text!r} is not JSON: null for none, and a text in quotes, as '\"re_1\"'",
            param_hint="--done",
        ) from None


@command(jobs, "payload")
def job_payload(api: Api, job_id: str) -> bytes:
    """Write the raw body of a job's event to standard output, as its vendor sent it."""
    return api.download(f"/v1/jobs/{part(job_id)}/payload")

"""`tidegate jobs ...`: the operator's API from a terminal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from streams.api.effects.cli_settlement import Done, NotDone, settlement
from streams.api.events import cli_tables as event_tables
from streams.api.jobs import cli_sentences as job_sentences
from streams.api.jobs import cli_tables as tables
from streams.api.jobs.cli_review import reviewed
from streams.api.jobs.cli_submission import submit
from streams.api.live.cli_watch import follow
from streams.api.timelines.cli_timeline import Spans, timeline
from streams.cli.operator_command import (
    Answer,
    Api,
    command,
    page_by_page,
    part,
    program,
    show,
    tell_how_to_follow,
    with_payload_command,
)
from streams.cli.options import ArtifactId, AsJson, DryRun, JobId, JsonLines, Page, Type, Watch
from streams.serde.job_states import NAMES

jobs = typer.Typer(
    no_args_is_help=True, help="Submit, watch, show, list, move, settle and cancel jobs."
)

jobs.command("submit")(program(submit))


@jobs.command("watch")
@program
def watch_job(api: Api, job_id: JobId, as_json: JsonLines = False) -> int:
    """Watch a job until it ends or needs review; an approval that it waits for does not end this.

    A pipe gets a line for each change, and with --json an object a line. A pause of the API, such
    as a restart, does not end it.

    Exit codes: 0 it succeeded; 3 it failed, is dead or was cancelled; 4 it needs review.

    Example: tidegate jobs watch job_d8utnr6f0dbu0aulueh5k9hsqk
    """
    return follow(api, job_id, as_json)


@command(jobs, "show", tables.job)
def show_job(api: Api, job_id: JobId) -> Answer:
    """Show one job with its input, why it failed and where, its effects, steps and progress.

    Example: tidegate jobs show job_d8utnr6f0dbu0aulueh5k9hsqk
    """
    found = with_payload_command(api, api.get(f"/v1/jobs/{part(job_id)}"))
    if (why := found.get("why")) and (helps := why.get("remedy")):
        why["command"] = api.command_of(helps)
    return found


@command(jobs, "timeline", timeline)
def job_timeline(api: Api, job_id: JobId, spans: Spans) -> Answer:
    """Show when a job waited, ran and made its effects, with its replays and what it asked for.

    Example: tidegate jobs timeline job_d8utnr6f0dbu0aulueh5k9hsqk --failed-only
    """
    return spans.of(api, f"/v1/jobs/{part(job_id)}/timeline")


@command(jobs, "artifacts", tables.artifacts)
def list_artifacts(api: Api, job_id: JobId) -> Answer:
    """List the files that a job saved, and what lies in the place of its large values.

    Example: tidegate jobs artifacts job_d8utnr6f0dbu0aulueh5k9hsqk
    """
    return api.get(f"/v1/jobs/{part(job_id)}/artifacts")


@command(jobs, "artifact")
def show_artifact(api: Api, job_id: JobId, artifact: ArtifactId) -> bytes:
    """Write the bytes that a job saved.

    Example: tidegate jobs artifact job_d8utnr6f0dbu0aulueh5k9hsqk art_7n0c > bill.pdf
    """
    return api.download(f"/v1/jobs/{part(job_id)}/artifacts/{part(artifact)}")


@command(jobs, "list", tables.jobs)
def list_jobs(
    api: Api,
    page: Page,
    status: Annotated[
        str | None,
        typer.Option(help=f"Only in this state: {', '.join(NAMES)}.", metavar="STATE"),
    ] = None,
    type_: Type = None,
    replay: Annotated[
        str | None, typer.Option(help="Only of this replay of events.", metavar="REPLAY_ID")
    ] = None,
    workflow: Annotated[
        str | None, typer.Option(help="Only of this workflow, at all levels.", metavar="ID")
    ] = None,
) -> Answer:
    """List jobs, newest first.

    Example: tidegate jobs list --tenant acme --status needs_review
    """
    only = {"status": status, "type": type_, "replay_id": replay, "workflow_id": workflow}
    return api.get("/v1/jobs", **page.query, **only)


@command(jobs, "cancel", job_sentences.cancelled)
def cancel_job(
    api: Api,
    job_id: JobId,
    reason: Annotated[str, typer.Option(help="Why; kept with the job.", metavar="TEXT")] = "",
) -> Answer:
    """Cancel a job that has not ended.

    Example: tidegate jobs cancel job_d8utnr6f0dbu0aulueh5k9hsqk --reason "asked twice"
    """
    return api.post(f"/v1/jobs/{part(job_id)}/cancel", {"reason": reason})


@command(jobs, "held", tables.held)
def list_held(api: Api, page: Page) -> Answer:
    """List what keeps jobs from running: no worker, pool, topic or free slot, a disabled tenant.

    Example: tidegate jobs held --tenant acme
    """
    return api.get("/v1/held", **page.query)


@command(jobs, "backlog", tables.backlog)
def list_backlog(api: Api) -> Answer:
    """Show how many jobs wait, where that is near a cap of max_queued: the fullest first.

    Example: tidegate jobs backlog
    """
    return api.get("/v1/backlog")


@command(jobs, "move", job_sentences.moved)
def move(
    api: Api,
    pool: Annotated[str, typer.Option(help="Pool in which it waits from now on.", metavar="POOL")],
    note: Annotated[str, typer.Option(help="Why; kept with the command.", metavar="TEXT")],
    job_id: Annotated[str | None, typer.Argument(metavar="JOB_ID")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Move all waiting jobs of --type.")] = False,
    type_: Annotated[
        str | None, typer.Option("--type", help="With --all: the jobs' type.", metavar="TYPE")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(help="With --all: only this tenant's.", metavar="TENANT")
    ] = None,
    dry_run: DryRun = False,
) -> Answer:
    """Let a job, or all waiting jobs of a type, wait in another pool.

    Example: tidegate jobs move --all --type export --pool slow --note "slow since noon" --dry-run
    """
    if all_ == (job_id is not None) or all_ != (type_ is not None):
        raise typer.BadParameter("name one JOB_ID, or --all with --type")
    if not all_ and (dry_run or tenant):
        raise typer.BadParameter("--dry-run and --tenant go with --all")
    body: dict[str, Any] = {"pool": pool, "note": note}
    if job_id is not None:
        return api.post(f"/v1/jobs/{part(job_id)}/move", body)
    body |= {"type": type_, "tenant_id": tenant, "dry_run": dry_run}
    return page_by_page(api, "/v1/jobs:move", body, "moved")


@jobs.command("settle")
@program
def settle(
    api: Api,
    job_id: JobId,
    action: Annotated[
        str, typer.Argument(metavar="ACTION", help="The effect, as `jobs show` names it.")
    ],
    note: Annotated[str, typer.Option(help="How you know; kept with the effect.", metavar="TEXT")],
    done: Done = None,
    not_done: NotDone = False,
    watch: Watch = False,
    as_json: AsJson = False,
) -> int:
    """Record whether an effect of a job in review was done; then the job goes on.

    With --watch the exit codes are those of `jobs watch`, and --json prints one object a line.

    Example: tidegate jobs settle job_d8utnr6f0dbu0aulueh5k9hsqk payment:refund/order
    --not-done --note "not at the bank"
    """
    body = settlement(done, not_done, note)
    job = api.post(f"/v1/jobs/{part(job_id)}/effects/{part(action)}/settle", body)
    if watch:
        return follow(api, job_id, as_json)
    tell_how_to_follow(api, job)
    return show(job, as_json, job_sentences.settled)


@command(jobs, "steps", job_sentences.decided)
def settle_steps(
    api: Api,
    job_id: JobId,
    note: Annotated[str, typer.Option(help="Why; kept with the command.", metavar="TEXT")],
    keep: Annotated[
        list[str] | None,
        typer.Option(help="A finished step that need not be asked for any more.", metavar="STEP"),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="A finished step to delete; asked again, it runs again.", metavar="STEP"),
    ] = None,
) -> Answer:
    """Let a job go on that waits because its code asks for other steps than it has finished.

    Without --keep and --drop it runs again as it is, for code that asks for them again.

    Example: tidegate jobs steps job_d8utnr6f0dbu0aulueh5k9hsqk --keep draft --note "draft is gone"
    """
    body = {"keep": keep or [], "drop": drop or [], "note": note}
    return api.post(f"/v1/jobs/{part(job_id)}/steps", body)


@command(jobs, "review", event_tables.review)
def review(api: Api, page: Page) -> Answer:
    """List the effects whose outcome nobody knows, with the commands that answer it.

    Example: tidegate jobs review --tenant acme
    """
    return reviewed(api, page)


@command(jobs, "payload")
def job_payload(api: Api, job_id: JobId) -> bytes:
    """Write the raw body of a job's event to standard output, as its vendor sent it.

    Example: tidegate jobs payload job_d8utnr6f0dbu0aulueh5k9hsqk > body.json
    """
    return api.download(f"/v1/jobs/{part(job_id)}/payload")

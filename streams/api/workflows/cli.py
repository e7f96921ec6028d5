"""`tidegate workflows ...`: jobs and the jobs that they asked for, from a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated

import typer

from streams.api.live.cli_watch import EXIT_CODES, Subject, asked_again, last_look
from streams.api.workflows import cli_tables as workflow_tables
from streams.cli.api_client import CallFailed
from streams.cli.cells import plain
from streams.cli.operator_command import Answer, Api, command, part, print_json, program
from streams.cli.options import AsJson, Cursor, JsonLines, Page, Tenant
from streams.serde import job_states

workflows = typer.Typer(
    no_args_is_help=True, help="Jobs and the jobs that they asked for: list, show, watch, cancel."
)

_ENDS = ", ".join(name for name in job_states.NAMES if name in job_states.TERMINAL)
_AT_WORK = (job_states.PENDING, job_states.SCHEDULED, job_states.RUNNING)
_IN_REVIEW = EXIT_CODES[job_states.NEEDS_REVIEW]
_MOST_LEVELS_SHOWN = 32
WorkflowId = Annotated[
    str, typer.Argument(metavar="WORKFLOW_ID", help="Its own, or that of any of its jobs.")
]


@workflows.callback()
def _group() -> None:
    """A job that asks for others is the root of a workflow, which has its id.

    Jobs that were submitted with one workflow id are roots of the same workflow.
    """


@command(workflows, "list", workflow_tables.workflows)
def list_workflows(
    api: Api,
    page: Page,
    status: Annotated[
        str | None, typer.Option(help=f"Only in this state: running, {_ENDS}.", metavar="STATE")
    ] = None,
) -> Answer:
    """List workflows, newest first. One runs until all of its jobs have ended.

    Example: tidegate workflows list --tenant acme --status running
    """
    return api.get("/v1/workflows", **page.query, status=status)


@workflows.command("show")
@program
def show(
    api: Api,
    workflow_id: WorkflowId,
    job: Annotated[
        str | None, typer.Option(help="Begin at this job of it.", metavar="JOB_ID")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(help="Of the first level, only jobs in this state.", metavar="STATE"),
    ] = None,
    levels: Annotated[
        int,
        typer.Option(min=1, max=_MOST_LEVELS_SHOWN, help="Show so many levels.", metavar="N"),
    ] = 2,
    limit: Annotated[
        int,
        typer.Option(min=1, max=200, help="Show at most this many jobs below one.", metavar="N"),
    ] = 20,
    cursor: Cursor = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> int:
    """Draw the tree of a workflow: each job with its state, and what it waits for.

    A large level shows its first jobs, and the others as numbers. --cursor goes on behind them,
    --status failed shows the failed ones alone, and --job goes deeper. --json has one level, with
    the steps, waits, approvals and effects of its job.

    Example: tidegate workflows show job_d8utnr6f0dbu0aulueh5k9hsqk --status failed
    """
    path = f"/v1/workflows/{part(workflow_id)}"
    where = path if job is None else f"{path}/jobs/{part(job)}"
    whose = {"tenant_id": tenant}
    found = api.get(where, **whose, status=status, limit=limit, cursor=cursor)
    if as_json:
        print_json(found)
        return 0
    filtered = {"status": status, "cursor": cursor}

    def below(job_id: str) -> Answer:
        return api.get(f"{path}/jobs/{part(job_id)}", **whose, limit=limit)

    workflow_tables.tree(api, found, below, levels, {k: v for k, v in filtered.items() if v})
    return 0


@workflows.command("watch")
@program
def watch(
    api: Api, workflow_id: WorkflowId, tenant: Tenant = None, as_json: JsonLines = False
) -> int:
    """Watch a workflow until all of its jobs have ended, or only a person can go on.

    A pipe gets a line for each change of its numbers, and with --json an object a line.

    Exit codes: 0 its root succeeded; 3 it failed, is dead or was cancelled; 4 a job of it needs
    review, and no other one runs or is about to.

    Example: tidegate workflows watch job_d8utnr6f0dbu0aulueh5k9hsqk
    """
    path = f"/v1/workflows/{part(workflow_id)}"
    query = {"tenant_id": tenant, "limit": 1}
    looks = partial(asked_again, api, path, query)
    last = last_look(Subject(workflow_id, looks, _name, workflow_tables.facts, _code), as_json)
    if not as_json and (advice := _advice(api, last)):
        typer.echo(advice, err=True)
    code = _code(last)
    return 0 if code is None else code


@command(workflows, "cancel", workflow_tables.cancelled)
def cancel(
    api: Api,
    workflow_id: WorkflowId,
    reason: Annotated[str, typer.Option(help="Why; kept with the jobs.", metavar="TEXT")] = "",
    tenant: Tenant = None,
) -> Answer:
    """Cancel the roots of a workflow; the jobs below them are cancelled with them.

    If its roots have ended, the jobs that they left behind are cancelled. Jobs that were asked for
    with on_parent="abandon" go on if their parent is cancelled: cancel again to end them, too.

    Example: tidegate workflows cancel job_d8utnr6f0dbu0aulueh5k9hsqk --reason "asked twice"
    """
    found = api.get(f"/v1/workflows/{part(workflow_id)}", tenant_id=tenant, limit=1)
    if found["status"] != job_states.RUNNING:
        raise CallFailed(f"workflow {workflow_id} has ended already: {found['status']}")
    id_, whose = found["workflow_id"], {"tenant_id": found["tenant_id"]}
    roots = _live(api, f"/v1/workflows/{part(workflow_id)}/roots", "roots", whose)
    jobs = _cancelled(api, roots, reason)
    if not jobs:
        left = _live(api, "/v1/jobs", "jobs", {**whose, "workflow_id": id_})
        jobs = _cancelled(api, left, reason)
    answered = all(job["answered"] for job in jobs)
    return {"workflow_id": id_, **whose, "cancelled": jobs, "answered": answered}


def _live(api: Api, path: str, name: str, query: Answer) -> Iterator[Answer]:
    """The jobs of a list that have not ended, page by page.

    All are listed, because one that goes from state to state may be in none of them as that is
    asked for.
    """
    cursor = None
    while True:
        found = api.get(path, **query, limit=200, cursor=cursor)
        yield from (job for job in found[name] if job["status"] in job_states.LIVE)
        if (cursor := found["next_cursor"]) is None:
            return


def _cancelled(api: Api, jobs: Iterator[Answer], reason: str) -> list[Answer]:
    """Cancel jobs; returns each as it then is, without those that ended meanwhile."""
    done = dict[str, Answer]()
    for job in jobs:
        try:
            found = api.post(f"/v1/jobs/{part(job['job_id'])}/cancel", {"reason": reason})
        except CallFailed as error:
            if error.name != "job-ended":
                raise
        else:
            done[job["job_id"]] = {n: found[n] for n in ("job_id", "type", "status", "answered")}
    return list(done.values())


def _name(found: Answer) -> Answer:
    return {"workflow_id": found["workflow_id"], "tenant": found["tenant_id"]}


def _code(found: Answer) -> int | None:
    if found["status"] != job_states.RUNNING:
        return EXIT_CODES.get(found["status"], EXIT_CODES[job_states.FAILED])
    jobs = found["jobs"]
    stuck = job_states.NEEDS_REVIEW in jobs and not any(name in jobs for name in _AT_WORK)
    return _IN_REVIEW if stuck else None


def _advice(api: Api, found: Answer) -> str | None:
    """What a person does about a workflow that ended so, or goes on only with a person."""
    id_, whose = found["workflow_id"], ("--tenant", found["tenant_id"])
    if _code(found) == _IN_REVIEW:
        return f"find out whether the effect happened: {api.command('jobs', 'review', *whose)}"
    if _code(found) == EXIT_CODES[job_states.SUCCEEDED] or found["error"] is None:
        return None
    why = api.command("jobs", "show", found["error"]["job_id"])
    return f"see why: {why}; and the tree: {api.command('workflows', 'show', plain(id_), *whose)}"

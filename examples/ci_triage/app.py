"""Triage of failed CI: look at the log of each failed job, then comment on the pull request once.

    tidegate dev --app examples.ci_triage.app:app --topology examples/ci_triage/topology.yaml

With GITHUB_TOKEN in the worker's environment the tools call GitHub; without it they pretend, and
write a line to the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from examples.ci_triage.github import failed_jobs, log_of, post_comment, token_of
from streams import App, Context, PermanentError, Retry

DAY = 86_400

app = App("ci_triage")
# The first two only read: to do it again does no harm. `post_comment` finds its comment again.
app.tool("github:jobs", key_lifetime=DAY)
app.tool("github:log", key_lifetime=DAY)
app.tool("github:comment", key_lifetime=30 * DAY)


@app.job("triage", scopes={"github:jobs", "github:comment"})
async def triage(ctx: Context) -> dict[str, Any]:
    """Triage a workflow run that failed; a rerun of it cancels this job and those that it made."""
    run, where = _run(await ctx.json())
    if run["conclusion"] != "failure":
        return {"failed": 0}
    token = await token_of(ctx)
    look = partial(failed_jobs, token)
    jobs = await ctx.effect("github:jobs", look, key="failed", repository=where, run_id=run["id"])
    looks = [ctx.child("look_at_log", {"repository": where, "job": job}) for job in jobs]
    found = await ctx.gather(looks, key="logs", limit=4, on_failure="collect")
    text = _comment(run, jobs, found)
    for pull_request in run["pull_requests"][:1]:
        # Reruns and other workflows of the commit may find something else to say. The text is no
        # argument of the effect, so whichever triage comes first has said it for all of them.
        await ctx.effect(
            "github:comment",
            partial(post_comment, token, text=text),
            key=f"{where}@{run['head_sha']}",
            once_per="tenant",
            repository=where,
            pull_request=pull_request["number"],
        )
    return {"failed": len(jobs), "comment": text}


@app.job("look_at_log", retry=Retry(max_attempts=4, backoff=(5, 30, 120)), scopes={"github:log"})
async def look_at_log(ctx: Context) -> str:
    """Say in a line why one job failed. It may read logs, and write nowhere."""
    job, where = ctx.input["job"], ctx.input["repository"]
    read = partial(log_of, await token_of(ctx))
    log = await ctx.effect("github:log", read, key="log", repository=where, job_id=job["id"])
    return str(await ctx.step("cause", find_cause, log))


def find_cause(log: str) -> str:
    """Where a language model would be asked: slow, costly, and kept as a step."""
    lines = [line.strip() for line in log.splitlines()]
    wrong = [line for line in lines if "error" in line.lower()]
    if not wrong:
        raise PermanentError("its log names no error")
    return wrong[0][:200]


def _run(event: Any) -> tuple[dict[str, Any], str]:
    """The workflow run of an event, and the repository that it ran in."""
    try:
        run: dict[str, Any] = event["workflow_run"]
        return run, str(event["repository"]["full_name"])
    except (KeyError, TypeError) as error:
        raise PermanentError(f"the body is no workflow run ({error}): see the payload") from error


def _comment(run: dict[str, Any], jobs: Sequence[dict[str, Any]], found: Sequence[Any]) -> str:
    """A line for each failed job; one whose log could not be read says why."""
    lines = [
        f"- **{job['name']}**: {look.result if look.status == 'succeeded' else look.error}"
        for job, look in zip(jobs, found, strict=True)
    ]
    return "\n".join([f"Run {run['run_number']} failed.", "", *lines])

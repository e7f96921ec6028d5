"""The three calls of GitHub's REST API that a triage makes: https://docs.github.com/en/rest."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import aiohttp
import structlog

from streams import Context, PermanentError, RetryAfter, TransientError

log = structlog.get_logger(__name__)
T = TypeVar("T")

_TIMEOUT = aiohttp.ClientTimeout(total=30)
_TAIL_CHARS = 20_000
_PRETENDED_JOBS = [{"id": 1, "name": "lint"}, {"id": 2, "name": "tests"}]
_PRETENDED_LOG = "collected 41 items\nE   AssertionError: assert 41 == 42\n1 failed, 40 passed"


async def token_of(ctx: Context) -> str | None:
    """The token of the topology; None where the tools pretend, because there is none.

    Ask for it in the handler: the functions of effects take it from around them.
    """
    return await ctx.credentials("github") if "GITHUB_TOKEN" in os.environ else None


async def failed_jobs(
    token: str | None, repository: str, run_id: int, idempotency_key: str
) -> list[dict[str, Any]]:
    """The id and name of each job that failed in the newest attempt of a run."""
    if token is None:
        return _pretended("failed_jobs", _PRETENDED_JOBS, run_id=run_id)
    answer = await _call(
        token, "GET", f"/repos/{repository}/actions/runs/{run_id}/jobs?per_page=100"
    )
    return [
        {"id": job["id"], "name": job["name"]}
        for job in answer["jobs"]
        if job["conclusion"] == "failure"
    ]


async def log_of(token: str | None, repository: str, job_id: int, idempotency_key: str) -> str:
    """The end of a job's log, where the errors are."""
    if token is None:
        return _pretended("log_of", _PRETENDED_LOG, job_id=job_id)
    text: str = await _call(token, "GET", f"/repos/{repository}/actions/jobs/{job_id}/logs")
    return text[-_TAIL_CHARS:]


async def post_comment(
    token: str | None, text: str, repository: str, pull_request: int, idempotency_key: str
) -> dict[str, Any]:
    """Comment on a pull request. GitHub knows no keys, so the comment carries its own, hidden."""
    if token is None:
        done = {"posted": pull_request}
        return _pretended("post_comment", done, pull_request=pull_request, text=text)
    comments = f"/repos/{repository}/issues/{pull_request}/comments"
    mark = f"<!-- {idempotency_key} -->"
    posted = await _call(token, "GET", f"{comments}?per_page=100")
    mine = [comment for comment in posted if mark in comment["body"]]
    if not mine:
        mine = [await _call(token, "POST", comments, {"body": f"{text}\n\n{mark}"})]
    return {"comment": mine[0]["id"]}


def _pretended(call: str, answer: T, **shown: object) -> T:
    log.info("GitHub would be called", call=call, **shown)
    return answer


async def _call(token: str, method: str, path: str, body: dict[str, str] | None = None) -> Any:
    """One attempt; its errors say what is known."""
    base = os.environ.get("GITHUB_API_URL", "https://api.github.com")
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession(base, headers=headers, timeout=_TIMEOUT) as session,
        session.request(method, path, json=body) as answer,
    ):
        if answer.status == 429 or (answer.status == 403 and "Retry-After" in answer.headers):
            raise RetryAfter(float(answer.headers.get("Retry-After", 60)), f"{path}: too many")
        if answer.status == 503:
            raise TransientError(f"{path}: GitHub is not available")
        if 400 <= answer.status < 500:
            raise PermanentError(f"{path}: refused with {answer.status}")
        answer.raise_for_status()
        return await (answer.json() if answer.content_type == "application/json" else answer.text())

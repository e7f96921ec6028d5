"""What `tidegate jobs review` asks the API: what somebody has to find out or to decide."""

from __future__ import annotations

from streams.cli.operator_command import Answer, Api
from streams.cli.options import Page
from streams.serde.effect_scopes import JOB
from streams.serde.job_states import NEEDS_REVIEW

_ABOUT = ("job_id", "tenant_id", "type", "event_id", "last_error")
_TOLD = (
    "action",
    "tool",
    "key",
    "status",
    "began_at",
    "settle_after",
    "claims",
    "idempotency_key",
    "arguments_sha256",
)
"""What is told of an effect's job, and of the effect."""


def reviewed(api: Api, page: Page) -> Answer:
    """The effects of jobs in review, the jobs whose code diverged, and effects of ended jobs.

    Each has its answers as commands, unless its job is not kept any more.
    """
    waiting = api.get("/v1/jobs", **page.query, status=NEEDS_REVIEW)
    lost = api.get("/v1/effects/unknown", tenant_id=page.tenant, limit=page.limit)
    return {
        "review": [each for job in waiting["jobs"] for each in _in_review(api, job)],
        "diverged": [_diverged(api, job) for job in waiting["jobs"] if job["diverged"] is not None],
        "next_cursor": waiting["next_cursor"],
        "lost": [_lost(api, effect) for effect in lost["effects"]],
        "more_lost": lost["next_cursor"] is not None,
    }


def _in_review(api: Api, job: Answer) -> list[Answer]:
    about = {name: job[name] for name in _ABOUT}
    return [
        {
            **about,
            **{name: effect[name] for name in _TOLD},
            "why": effect["error"] or f"run {effect['run_id']} ended without telling its outcome",
            **_answers(api, "jobs", "settle", job["job_id"], effect["action"]),
        }
        for effect in job["effects"]
        if effect["settle_after"] is not None
    ]


def _diverged(api: Api, job: Answer) -> Answer:
    """A job whose code asked for other steps than the finished ones, with the ways on."""
    steps = ("jobs", "steps", job["job_id"])
    return {
        **{name: job[name] for name in (*_ABOUT, "diverged", "code", "code_at_start")},
        "if_mended": api.command(*steps, "--note", "the code asks for it again"),
        "if_kept": api.command(*steps, "--keep", job["diverged"], "--note", "no longer needed"),
        "if_dropped": api.command(*steps, "--drop", job["diverged"], "--note", "do it again"),
    }


def _lost(api: Api, effect: Answer) -> Answer:
    if effect["settle_after"] is None:
        return {**effect, "if_done": None, "if_not_done": None}
    if effect["once_per"] == JOB:
        return {**effect, **_answers(api, "jobs", "settle", effect["job_id"], effect["action"])}
    tenant = ("--tenant", effect["tenant_id"])
    return {**effect, **_answers(api, "effects", "settle", effect["action"], *tenant)}


def _answers(api: Api, *settle: str) -> Answer:
    """The two answers to an unknown effect, as commands."""
    done = ("--done", "RESULT_AS_JSON", "--note", "the tool shows it")
    not_done = ("--not-done", "--note", "the tool does not show it")
    return {
        "if_done": api.command(*settle, *done),
        "if_not_done": api.command(*settle, *not_done),
    }

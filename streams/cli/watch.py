"""Follows a job until it ends: a live view on a terminal, a line for each change on a pipe."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import orjson
import typer
from rich.live import Live
from rich.table import Table

from streams.cli import finished_steps
from streams.cli.api_client import CallFailed, NoAnswer
from streams.cli.cells import console_of_any_width, fields, plain
from streams.cli.operator_command import Answer, Api, part
from streams.serde import job_states

EXIT_CODES = {
    state.name: state.exit_code for state in job_states.JOB_STATES if state.exit_code is not None
}
"""The exit code of each status at which watching ends."""

_BETWEEN_LOOKS_SECONDS = 0.3
_SHOWN_WITHIN_SECONDS = 60.0
"""How long a job that was accepted may take to be shown; a restart of everything is shorter."""

Look = Answer | None
"""A job, or None for a gap: the API does not answer for now."""
Tell = Callable[[Look], None]


def follow(api: Api, job_id: str, as_json: bool, *, accepted: bool = False) -> int:
    """Show a job until it ends, and return the exit code of its end.

    With `accepted`, the job was accepted just now and may not be shown yet.

    Raises:
        CallFailed: there is no such job, or it does not appear.
    """
    last: Answer = {}
    with _told_as(as_json) as tell:
        for look in _looks(api, job_id, accepted=accepted):
            tell(look)
            last = look or last
    next_step = _next_step(api, last)
    if next_step and not as_json:
        typer.echo(next_step, err=True)
    return EXIT_CODES[last["status"]]


def _next_step(api: Api, job: Answer) -> str | None:
    """What a person does about a job that ended so, with the commands for it."""
    id_ = job["job_id"]
    if job["status"] in job_states.FOR_A_PERSON:
        review = api.command("jobs", "review", "--tenant", job["tenant_id"])
        return f"find out whether the effect happened; this prints the answers: {review}"
    if job["status"] in job_states.IN_DEAD_LETTERS:
        replay = api.command("dlq", "replay", id_, "--note", "TEXT")
        return f"see why: {api.command('dlq', 'show', id_)}; when that is mended: {replay}"
    return None


def _looks(api: Api, job_id: str, *, accepted: bool) -> Iterator[Look]:
    """The job each time that something about it has changed, and after each gap; None for a gap."""
    told: list[str] = []
    known, gap, latest = accepted, False, time.monotonic() + _SHOWN_WITHIN_SECONDS
    while True:
        try:
            job = api.get(f"/v1/jobs/{part(job_id)}")
        except NoAnswer:
            if not known:
                raise
            if not gap:
                yield None
            gap = True
        except CallFailed as error:
            if not accepted or told or error.name != "job-unknown":
                raise
            if time.monotonic() > latest:
                raise _not_shown(api, job_id) from None
        else:
            if gap or told != facts(job):
                yield job
            told, known, gap = facts(job), True, False
            if job["status"] in EXIT_CODES:
                return
        time.sleep(_BETWEEN_LOOKS_SECONDS)


def _not_shown(api: Api, job_id: str) -> CallFailed:
    return CallFailed(
        f"job {job_id} is accepted, but no dispatcher has made it within "
        f"{_SHOWN_WITHIN_SECONDS:.0f} s: check that `tidegate pipeline` runs, then "
        f"`{api.command('jobs', 'watch', job_id)}`"
    )


def facts(job: Answer) -> list[str]:
    """What a line tells of a job, the status first; none of it can steer a terminal."""
    status, found = job["status"], [job["status"]]
    if job["attempts"]:
        found.append(f"attempt {job['attempts']}")
    if job["held"]:
        found.append(f"held: {job['held']['reason']}: {job['held']['detail']}")
    if status in job_states.DUE_LATER and job.get("why"):
        found.append(job["why"]["detail"])
    if job["progress"] is not None:
        found.append(f"progress {plain(job['progress'])}")
    found += finished_steps.told(job["steps"])
    found += [f"effect {each['action']} {each['status']}" for each in job["effects"]]
    if job["last_error"] and status != job_states.SUCCEEDED:
        found.append(f"error: {job['last_error']}")
    if status == job_states.SUCCEEDED:
        found.append(f"result {plain(job['result'])}")
    return [plain(each) for each in found]


@contextmanager
def _told_as(as_json: bool) -> Iterator[Tell]:
    """How each look is told: JSON, lines, or a view that changes in place."""
    console = console_of_any_width()
    if as_json:
        yield lambda look: _tell_gap() if look is None else typer.echo(orjson.dumps(look))
    elif not console.is_terminal:
        yield lambda look: _tell_gap() if look is None else typer.echo(_line(look))
    else:
        with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
            last: Answer = {}

            def tell(look: Look) -> None:
                last.update(look or {})
                live.update(_view(last, gap=look is None), refresh=True)

            yield tell


def _tell_gap() -> None:
    typer.echo("the API does not answer: trying on", err=True)


def _line(job: Answer) -> str:
    return f"{datetime.now(UTC):%H:%M:%S}Z {job['job_id']} {', '.join(facts(job))}"


def _view(job: Answer, *, gap: bool) -> Table:
    """One row for each thing that is known of the job."""
    if not job:
        return fields({"job": "the API does not answer: trying on"})
    status, *others = facts(job)
    shown = {"job_id": job["job_id"], "type": job["type"], "status": status}
    shown |= {"": "\n".join(others)} if others else {}
    return fields(shown | ({"API": "does not answer: trying on"} if gap else {}))

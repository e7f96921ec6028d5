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

from streams.cli import tables
from streams.cli.api_client import CallFailed, NoAnswer
from streams.cli.operator_command import Answer, Api, part

EXIT_CODES = {"succeeded": 0, "failed": 3, "dead": 3, "cancelled": 3, "needs_review": 4}
"""The exit code of each status at which watching ends."""

_BETWEEN_LOOKS_SECONDS = 0.3
_SHOWN_WITHIN_SECONDS = 60.0
"""How long a job that was accepted may take to be shown; a restart of everything is shorter."""
_NEXT = {
    "needs_review": "find out whether the effect in review happened, then: "
    "tidegate jobs settle {id} ACTION --done RESULT (or --not-done) --note TEXT",
    "dead": "see why: tidegate dlq show {id}; when that is mended: "
    "tidegate dlq replay {id} --note TEXT",
    "failed": "see why: tidegate dlq show {id}; when that is mended: "
    "tidegate dlq replay {id} --note TEXT",
}

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
    status = last["status"]
    if status in _NEXT and not as_json:
        typer.echo(_NEXT[status].format(id=job_id), err=True)
    return EXIT_CODES[status]


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
                raise _not_shown(job_id) from None
        else:
            if gap or told != facts(job):
                yield job
            told, known, gap = facts(job), True, False
            if job["status"] in EXIT_CODES:
                return
        time.sleep(_BETWEEN_LOOKS_SECONDS)


def _not_shown(job_id: str) -> CallFailed:
    return CallFailed(
        f"job {job_id} is accepted, but no dispatcher has made it within "
        f"{_SHOWN_WITHIN_SECONDS:.0f} s: check that `tidegate pipeline` runs, then "
        f"`tidegate jobs watch {job_id}`"
    )


def facts(job: Answer) -> list[str]:
    """What a line tells of a job, the status first; none of it can steer a terminal."""
    status, found = job["status"], [job["status"]]
    if job["attempts"]:
        found.append(f"attempt {job['attempts']}")
    if job["held"]:
        found.append(f"held: {job['held']['reason']}: {job['held']['detail']}")
    if status in ("scheduled", "waiting") and (due := job["next_retry_at"] or job["scheduled_at"]):
        found.append(f"starts at {due}")
    if job["progress"] is not None:
        found.append(f"progress {tables.plain(job['progress'])}")
    found += [f"step {each['name']}" for each in job["steps"]]
    found += [f"effect {each['action']} {each['status']}" for each in job["effects"]]
    if job["last_error"] and status != "succeeded":
        found.append(f"error: {job['last_error']}")
    if status == "succeeded":
        found.append(f"result {tables.plain(job['result'])}")
    return [tables.plain(each) for each in found]


@contextmanager
def _told_as(as_json: bool) -> Iterator[Tell]:
    """How each look is told: JSON, lines, or a view that changes in place."""
    console = tables.console_of_any_width()
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
        return tables.fields({"job": "the API does not answer: trying on"})
    status, *others = facts(job)
    shown = {"job_id": job["job_id"], "type": job["type"], "status": status}
    shown |= {"": "\n".join(others)} if others else {}
    return tables.fields(shown | ({"API": "does not answer: trying on"} if gap else {}))

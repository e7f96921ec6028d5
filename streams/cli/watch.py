"""Follows a job or a workflow until it ends.

A terminal gets a live view, a pipe a line for each change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
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
"""What is watched, or None for a gap: the API does not answer for now."""
Tell = Callable[[Look], None]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is watched: its id and path, what is told of a look, and when watching ends.

    `facts` are what a line tells, the status first; none of them can steer a terminal. `code` is
    the exit code of a look at which watching ends, and None if it goes on.
    """

    id: str
    path: str
    name: Callable[[Answer], Answer]
    facts: Callable[[Answer], list[str]]
    code: Callable[[Answer], int | None]
    query: Mapping[str, str | int | None] = field(default_factory=dict)


def follow(api: Api, job_id: str, as_json: bool, *, accepted: bool = False) -> int:
    """Show a job until it ends, and return the exit code of its end.

    With `accepted`, the job was accepted just now and may not be shown yet.

    Raises:
        CallFailed: there is no such job, or it does not appear.
    """
    subject = Subject(job_id, f"/v1/jobs/{part(job_id)}", _name, facts, _code)
    last = last_look(api, subject, as_json, accepted=accepted)
    next_step = _next_step(api, last)
    if next_step and not as_json:
        typer.echo(next_step, err=True)
    return EXIT_CODES[last["status"]]


def last_look(api: Api, subject: Subject, as_json: bool, *, accepted: bool = False) -> Answer:
    """Show what is watched until it ends, and return it as it then is."""
    last: Answer = {}
    with _told_as(as_json, subject) as tell:
        for look in _looks(api, subject, accepted=accepted):
            tell(look)
            last = look or last
    return last


def _name(job: Answer) -> Answer:
    return {"job_id": job["job_id"], "type": job["type"]}


def _code(job: Answer) -> int | None:
    return EXIT_CODES.get(job["status"])


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


def _looks(api: Api, subject: Subject, *, accepted: bool) -> Iterator[Look]:
    """The subject each time that something of it has changed, and after a gap; None for a gap."""
    told: list[str] = []
    known, gap, latest = accepted, False, time.monotonic() + _SHOWN_WITHIN_SECONDS
    while True:
        try:
            found = api.get(subject.path, **subject.query)
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
                raise _not_shown(api, subject.id) from None
        else:
            if gap or told != subject.facts(found):
                yield found
            told, known, gap = subject.facts(found), True, False
            if subject.code(found) is not None:
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
def _told_as(as_json: bool, subject: Subject) -> Iterator[Tell]:
    """How each look is told: JSON, lines, or a view that changes in place."""
    console = console_of_any_width()
    if as_json:
        yield lambda look: _tell_gap() if look is None else typer.echo(orjson.dumps(look))
    elif not console.is_terminal:
        yield lambda look: _tell_gap() if look is None else typer.echo(_line(subject, look))
    else:
        with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
            last: Answer = {}

            def tell(look: Look) -> None:
                last.update(look or {})
                live.update(_view(subject, last, gap=look is None), refresh=True)

            yield tell


def _tell_gap() -> None:
    typer.echo("the API does not answer: trying on", err=True)


def _line(subject: Subject, look: Answer) -> str:
    return f"{datetime.now(UTC):%H:%M:%S}Z {subject.id} {', '.join(subject.facts(look))}"


def _view(subject: Subject, look: Answer, *, gap: bool) -> Table:
    """One row for each thing that is known of the subject."""
    if not look:
        return fields({subject.id: "the API does not answer: trying on"})
    status, *others = subject.facts(look)
    shown = {**subject.name(look), "status": status}
    shown |= {"": "\n".join(others)} if others else {}
    return fields(shown | ({"API": "does not answer: trying on"} if gap else {}))

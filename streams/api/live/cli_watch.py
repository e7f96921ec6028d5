"""Follows a job or a workflow until it ends.

A terminal gets a live view, a pipe a line for each change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import orjson
import typer
from rich.live import Live
from rich.table import Table

from streams.api.live import cli_job_events as job_events
from streams.api.steps import cli_finished as finished_steps
from streams.cli.api_client import NoAnswer
from streams.cli.cells import console_of_any_width, fields, plain
from streams.cli.operator_command import Answer, Api
from streams.cli.terminal_text import harmless_json
from streams.serde import job_states

EXIT_CODES = {
    state.name: state.exit_code for state in job_states.JOB_STATES if state.exit_code is not None
}
"""The exit code of each status at which watching ends."""

_BETWEEN_LOOKS_SECONDS = 0.3

Look = Answer | None
"""What is watched, or None for a gap: the API does not answer for now."""
Tell = Callable[[Look], None]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is watched: its id, how it looks time after time, and when watching ends.

    `facts` are what a line tells, the status first; none of them can steer a terminal. `code` is
    the exit code of a look at which watching ends, and None if it goes on. `text` is what is
    streamed now, which a terminal alone shows.
    """

    id: str
    looks: Callable[[], Iterator[Look]]
    name: Callable[[Answer], Answer]
    facts: Callable[[Answer], list[str]]
    code: Callable[[Answer], int | None]
    text: Callable[[], str] = str


def follow(api: Api, job_id: str, as_json: bool, *, accepted: bool = False) -> int:
    """Show a job until it ends, and return the exit code of its end.

    With `accepted`, the job was accepted just now and may not be shown yet.

    Raises:
        CallFailed: there is no such job, or it does not appear.
    """
    texts: job_events.Texts = {}
    looks = partial(job_events.looks, api, job_id, texts, accepted=accepted)
    text = partial(job_events.newest_text, texts)
    last = last_look(Subject(job_id, looks, _name, facts, _code, text), as_json)
    next_step = _next_step(api, last)
    if next_step and not as_json:
        typer.echo(next_step, err=True)
    return EXIT_CODES[last["status"]]


def last_look(subject: Subject, as_json: bool) -> Answer:
    """Show what is watched until it ends, and return it as it then is."""
    last: Answer = {}
    on_terminal = not as_json and console_of_any_width().is_terminal
    with _told_as(as_json, subject) as tell:
        for look in _changes(subject, with_text=on_terminal):
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


def _changes(subject: Subject, *, with_text: bool) -> Iterator[Look]:
    """The subject each time that something of it has changed, and after a gap; None for a gap."""
    told: list[str] = []
    for found in subject.looks():
        if found is None:
            told = []
            yield None
            continue
        now = [*subject.facts(found), subject.text() if with_text else ""]
        if told != now:
            yield found
        told = now
        if subject.code(found) is not None:
            return


def asked_again(api: Api, path: str, query: Mapping[str, str | int | None]) -> Iterator[Look]:
    """An answer of the API again and again, and None once while there is none.

    Raises:
        NoAnswer: the API did not answer even once.
        CallFailed: it refuses the call.
    """
    known = gap = False
    while True:
        try:
            yield api.get(path, **query)
            known, gap = True, False
        except NoAnswer:
            if not known:
                raise
            if not gap:
                yield None
            gap = True
        time.sleep(_BETWEEN_LOOKS_SECONDS)


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
        yield lambda look: _tell_gap() if look is None else typer.echo(_json(look))
    elif not console.is_terminal:
        yield lambda look: _tell_gap() if look is None else typer.echo(_line(subject, look))
    else:
        with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
            last: Answer = {}

            def tell(look: Look) -> None:
                last.update(look or {})
                live.update(_view(subject, last, gap=look is None), refresh=True)

            yield tell


def _json(look: Answer) -> bytes:
    return harmless_json(orjson.dumps(look)).encode()


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
    shown |= {"streams": text} if (text := subject.text()) else {}
    return fields(shown | ({"API": "does not answer: trying on"} if gap else {}))

"""What `tidegate jobs ...` prints for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from streams.api.deliveries import cli_tables as delivery_tables
from streams.api.steps import cli_finished as finished_steps
from streams.cli.cells import Json, console_of_any_width, plain, print_block, print_fields, tell
from streams.cli.lists import listed, page
from streams.serde.job_states import SUCCEEDED
from streams.serde.step_ids import shown_id

_CAPS = ("limit", "scope", "value", "in_use", "concurrency")
_HISTORY = ("attempt", "kind", "at", "worker_id", "error")
_AS_ITS_STATUS = ("turn", "scheduled", "review", "outside")
"""Reasons why a job waits that say no more than its status."""
_APART = (
    "effects",
    "steps",
    "history",
    "held",
    "why",
    "waits",
    "answered",
    "warning",
    "deliveries",
    "input",
    "log",
)
_APART_OF_WHY = ("caps", "remedy")
_OF_SEVERAL = ("event_ids", "event_count")
_WAITS = ("kind", "name", "match", "job_id", "approval_id", "count", "made", "since", "until")
_REPLAYS = ("status", "created_at", "submitted_by", "job_id", "note")


def _job_row(job: Json) -> Json:
    """A job whose status says what keeps it from running, if more than its turn does."""
    status, why = job["status"], job.get("why")
    row = {**job, "waits_for": _waits_for(job, why)}
    if why and why["reason"] not in _AS_ITS_STATUS:
        return {**row, "status": f"{status}: {why['reason']}"}
    # A succeeded job's error is from an earlier attempt.
    return {**row, "last_error": None} if status == SUCCEEDED else row


def _waits_for(job: Json, why: Json | None) -> str | None:
    """What another job, a person or an event has to bring, since when, and until when."""
    if why is None or why["reason"] not in ("outside", "effect"):
        return None
    began = min((wait["since"] for wait in job["waits"] if wait["parked"]), default=None)
    if why["reason"] == "effect" or began is None:
        return str(why["detail"])
    return f"{why['detail'].removeprefix('it waits for ')}, since {began}"


def job(found: Json) -> None:
    """One job, its input, where it failed, then its steps and effects."""
    console = console_of_any_width()
    left_out = _APART if (found.get("event_count") or 0) > 1 else (*_APART, *_OF_SEVERAL)
    print_fields(console, {k: v for k, v in _with_place(found).items() if k not in left_out})
    if (given := found.get("input")) not in (None, {}):
        print_block(console, "input", given)
    if why := found.get("why"):
        _why(console, why)
    elif found["held"]:
        print_fields(console, found["held"], "held: no lease can be made for it")
    if found["waits"]:
        console.print("what it waits for or listens to")
        waits = [{**wait, "name": shown_id(wait["name"])} for wait in found["waits"]]
        listed(waits, _WAITS, None)
    if found["history"]:
        console.print("runs that did not succeed")
        listed(found["history"], _HISTORY, None)
    for run in found["history"]:
        if run.get("traceback"):
            print_block(console, f"where attempt {run['attempt']} failed", run["traceback"])
    if lines := found.get("log"):
        print_block(console, "last log lines", "\n".join(map(_log_line, lines)))
    if found["steps"]:
        _steps(console, found["steps"])
    for effect in found["effects"]:
        print_fields(console, effect, "effect")
    delivery_tables.related(console, found.get("deliveries", ()))


def _log_line(line: Json) -> str:
    """A line as a terminal shows it: its time, level and message, then its fields."""
    fields = "".join(f" {name}={plain(value)}" for name, value in line["fields"].items())
    return f"{line['at']} {line['level']}: {line['message']}{fields}"


def _with_place(found: Json) -> Json:
    """A job with the one that asked for it as one text, and without numbers that say nothing."""
    parent = found.get("parent")
    asked = None if parent is None else f"{parent['job_id']} by {shown_id(parent['call'])}"
    numbers = {name: found.get(name) or None for name in ("depth", "continuations")}
    return {**found, "parent": asked, **numbers}


def _steps(console: Console, steps: Sequence[Json]) -> None:
    """What finished steps left, then those that were asked again with other arguments."""
    print_fields(console, finished_steps.left_by_name(steps), "steps")
    if changed := [step["name"] for step in steps if step["changed_args"]]:
        tell(f"asked again with other arguments, and kept: {', '.join(changed)}")


def _why(console: Console, why: Json) -> None:
    """Why a job waits, then the caps that are reached."""
    print_fields(console, {k: v for k, v in why.items() if k not in _APART_OF_WHY}, "why it waits")
    if why["caps"]:
        console.print("caps that are reached")
        listed(why["caps"], _CAPS, None)


def replays(console: Console, made: Sequence[Json]) -> None:
    """The jobs that were made of one job, if any were."""
    if made:
        console.print("replayed as")
        listed(made, _REPLAYS, None)


def artifacts(found: Json) -> None:
    """What a job has saved, oldest first."""
    listed(found["artifacts"], ("written_at", "name", "size", "content_type", "artifact"), None)


def backlog(found: Json) -> None:
    """How many jobs wait, where that is near a cap of `max_queued`."""
    listed(found["backlog"], ("full", "jobs", "cap", "scope", "value"), None)


jobs = page(
    "jobs",
    (
        *("status", "type", "tenant_id", "created_at", "attempts"),
        *("job_id", "waits_for", "last_error"),
    ),
    _job_row,
)

held = page("held", ("reason", "jobs", "since", "partition", "pool", "type", "tenant_id", "detail"))

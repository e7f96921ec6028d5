"""What the commands of the operator's API print for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console

from streams.api.deliveries import cli_tables as delivery_tables
from streams.api.steps import cli_finished as finished_steps
from streams.cli.cells import Json, console_of_any_width, plain, print_block, print_fields, tell
from streams.cli.lists import listed, page
from streams.serde.job_states import SUCCEEDED
from streams.serde.step_ids import shown_id

Show = Callable[[Json], None]

_ERRORS = ("count", "error", "reason", "type", "last_at", "first_at")
_CAPS = ("limit", "scope", "value", "in_use", "concurrency")
_HISTORY = ("attempt", "kind", "at", "worker_id", "error")
_AS_ITS_STATUS = ("turn", "unread", "scheduled", "review", "outside")
"""Reasons why a job waits that say no more than its status."""
_LEFT_OUT = ("reason", "id", "detail")

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
_WAYS = ("to_approve", "to_reject", "page")
_OF_SEVERAL = ("event_ids", "event_count")
_WAITS = ("kind", "name", "match", "job_id", "approval_id", "count", "made", "since", "until")
_OF_ROWS = ("last", "skipped", "next", "input", "cron", "every_seconds", "at")
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


def _letter_row(letter: Json) -> Json:
    """A letter with what became of its replay: of its record, or of the job that was made."""
    outcome = letter["replay_outcome"] or letter["replayed_status"]
    return {**letter, "replay_outcome": outcome}


def backlog(found: Json) -> None:
    """How many jobs wait, where that is near a cap of `max_queued`."""
    listed(found["backlog"], ("full", "jobs", "cap", "scope", "value"), None)


def artifacts(found: Json) -> None:
    """What a job has saved, oldest first."""
    listed(found["artifacts"], ("written_at", "name", "size", "content_type", "artifact"), None)


def dead_letter_counts(found: Json) -> None:
    """Dead letters by error, most first."""
    listed(found["errors"], _ERRORS, None)
    if found["more"]:
        tell("there are more: raise --limit, or filter, for example with --reason")


def one(found: Json) -> None:
    """One thing, with all its fields."""
    print_fields(console_of_any_width(), found)


def approval(found: Json) -> None:
    """What is asked of people: its fields, the arguments of each effect, and how to decide."""
    console = console_of_any_width()
    apart = ("effects", "details", *_WAYS)
    print_fields(console, {k: v for k, v in found.items() if k not in apart} | found["details"])
    for effect in found["effects"]:
        print_block(console, f"{effect['tool']}/{effect['key']}", effect["arguments"])
    for way in (way for way in _WAYS if way in found):
        tell(f"{way.replace('_', ' ')}: {found[way]}")


def schedule(found: Json) -> None:
    """One schedule with its fields, its next times below each other, and its jobs' input."""
    console = console_of_any_width()
    print_fields(console, {**_schedule_row(found), "next": "\n".join(found["next"]) or "never"})
    if found["input"] not in (None, {}):
        print_block(console, "input", found["input"])


def deleted_schedule(found: Json) -> None:
    tell(f"schedule {found['id']} of tenant {found['tenant_id']} is deleted")


def _schedule_row(found: Json) -> Json:
    """A schedule with when it fires, its next time, and its last job, each as one text."""
    last, skipped, ahead = found["last"] or {}, found["skipped"] or {}, found["next"]
    every = f"every {found['every_seconds']} s"
    return {
        **{name: value for name, value in found.items() if name not in _OF_ROWS},
        "when": found["cron"] or found["at"] or every,
        "next": "paused" if found["paused"] else ahead[0] if ahead else "never",
        "last_job_id": last.get("job_id"),
        "last_at": last.get("scheduled_for"),
        "skipped_at": skipped.get("scheduled_for"),
        "skipped_because": skipped.get("because"),
    }


def released(found: Json) -> None:
    """A body that was accepted as an event."""
    its_job = f", and its job is {found['job_id']}" if found["job_id"] else ""
    tell(f"{found['event_id']} is an event of source {found['source']} now{its_job}")


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
    print_fields(console, {k: v for k, v in why.items() if k != "caps"}, "why it waits")
    if why["caps"]:
        console.print("caps that are reached")
        listed(why["caps"], _CAPS, None)


def dead_letter(found: Json) -> None:
    """One dead letter, then its replays and its job."""
    console = console_of_any_width()
    print_fields(console, {k: v for k, v in found.items() if k not in ("job", "replays")})
    replays(console, found["replays"])
    if found.get("job"):
        job(found["job"])


def replays(console: Console, made: Sequence[Json]) -> None:
    """The jobs that were made of one job, if any were."""
    if made:
        console.print("replayed as")
        listed(made, _REPLAYS, None)


def tenant(found: Json) -> None:
    print_fields(console_of_any_width(), _readable(found))


def disabled_tenant(found: Json) -> None:
    tell(f"tenant {found['tenant_id']} is disabled: its deliveries and submissions are refused")


def disabled_source(found: Json) -> None:
    what = f"source {found['source']} of tenant {found['tenant_id']}"
    tell(f"{what} is disabled: its deliveries are refused, and its secrets are deleted")


def _readable(found: Json) -> Json:
    rate, names = found.get("rate"), found["sources"]
    shown = None if rate is None else f"{rate['count']}/{rate['seconds']:g}s"
    limits = ", ".join(limit["name"] for limit in found.get("limits", ()))
    return {**found, "rate": shown, "sources": ", ".join(names), "limits": limits}


def bulk(found: Json, done: str, able: str, what: str) -> None:
    """The result of a bulk call: what it did or would do, then what it left out and why."""
    left_out = found.get("left_out") or ()
    if found["dry_run"]:
        tell(f"{found[able]} of {found['matched']} {what} that match would be {done}")
    else:
        tell(f"{found[done]} of {found['matched']} {what} that match are {done}")
    if left_out:
        tell(f"{len(left_out)} left out:")
        listed(left_out, _LEFT_OUT, None)


jobs = page(
    "jobs",
    (
        *("status", "type", "tenant_id", "created_at", "attempts"),
        *("job_id", "waits_for", "last_error"),
    ),
    _job_row,
)
dead_letters = page(
    "dead_letters",
    (
        *("reason", "type", "tenant_id", "at", "kind", "attempts"),
        *("replay_outcome", "replayed_at", "id", "detail"),
    ),
    _letter_row,
)
quarantined = page(
    "quarantine", ("status", "reason", "source", "tenant_id", "received_at", "id", "job_id")
)
duplicates = page(
    "duplicates",
    (
        *("count", "event_type", "source", "tenant_id"),
        *("last_at", "first_at", "last_event_id", "fingerprint"),
    ),
)
tenants = page(
    "tenants",
    ("tenant_id", "disabled", "rate", "weight", "sources", "updated_at", "display_name"),
    _readable,
)
sources = page(
    "sources", ("tenant_id", "source", "disabled", "scheme", "secrets", "updated_at", "mapping")
)
rejections = page(
    "rejections", ("count", "reason", "cause", "source", "tenant_id", "last_at", "first_at")
)
effects = page(
    "effects",
    ("status", "action", "tenant_id", "began_at", "job_id", "claims", "error"),
)
approvals = page(
    "approvals",
    ("approval_id", "status", "key", "job_id", "tenant_id", "expires_at", "by", "prompt"),
)
schedules = page(
    "schedules",
    ("id", "when", "tz", "job", "tenant_id", "next", "last_at", "last_job_id"),
    _schedule_row,
)
held = page("held", ("reason", "jobs", "since", "partition", "pool", "type", "tenant_id", "detail"))
"""What lists print."""

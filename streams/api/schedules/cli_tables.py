"""What `tidegate schedules ...` prints for people."""

from __future__ import annotations

from streams.cli.cells import Json, console_of_any_width, print_block, print_fields, tell
from streams.cli.lists import page

_OF_ROWS = ("last", "skipped", "next", "input", "cron", "every_seconds", "at")


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


schedules = page(
    "schedules",
    ("id", "when", "tz", "job", "tenant_id", "next", "last_at", "last_job_id"),
    _schedule_row,
)

"""What `tidegate dlq ...` prints for people."""

from __future__ import annotations

from streams.api.jobs.cli_tables import job, replays
from streams.cli.cells import Json, console_of_any_width, print_fields, tell
from streams.cli.lists import listed, page

_ERRORS = ("count", "error", "reason", "type", "last_at", "first_at")


def _letter_row(letter: Json) -> Json:
    """A letter with what became of its replay: of its record, or of the job that was made.

    Manual work has what is to be done in place of why it failed.
    """
    outcome = letter["replay_outcome"] or letter["replayed_status"]
    detail = letter.get("manual_note") or letter["detail"]
    return {**letter, "replay_outcome": outcome, "detail": detail}


def dead_letter_counts(found: Json) -> None:
    """Dead letters by error, most first."""
    listed(found["errors"], _ERRORS, None)
    if found.get("matched_is_bound"):
        tell(f"of more than {found['matched']:,} that match, the newest are counted")
    if found["more"]:
        tell("there are more: raise --limit, or filter, for example with --reason")


def dead_letter(found: Json) -> None:
    """One dead letter, then its replays and its job."""
    console = console_of_any_width()
    print_fields(console, {k: v for k, v in found.items() if k not in ("job", "replays")})
    replays(console, found["replays"])
    if found.get("job"):
        job(found["job"])


dead_letters = page(
    "dead_letters",
    (
        *("reason", "type", "tenant_id", "at", "kind", "attempts"),
        *("assignee", "replay_outcome", "replayed_at", "id", "detail"),
    ),
    _letter_row,
)

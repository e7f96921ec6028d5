"""The states of a job: one row each, which answers every question that code asks about a state.

A new state is a name in `JobStatus`, its constant, its row, and its row in docs/jobs.md. A record
may carry a state that only a newer release knows: such a state is in none of the sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

JobStatus = Literal[
    "pending",
    "scheduled",
    "running",
    "waiting",
    "needs_review",
    "succeeded",
    "failed",
    "cancelled",
    "dead",
]
PENDING: Final = "pending"
SCHEDULED: Final = "scheduled"
RUNNING: Final = "running"
WAITING: Final = "waiting"
NEEDS_REVIEW: Final = "needs_review"
SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
DEAD: Final = "dead"

Level = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class JobState:
    """One state of a job.

    `waits_for` names what a job in this state waits for before it goes on. `only_here` names the
    fields of the job's record that no other state has: they end with it. `is_terminal` says that
    the job has ended, `is_leased` that a worker holds it, and `after_run` that only a job that was
    leased at least once gets here. `dead_letter` is the reason of its dead letter where its end had
    no other cause, and None if the state makes no dead letter. A job `is_replayable` from here as a
    new one. `is_sent` says that endpoints get a message of the type `job.NAME`. `exit_code` is that
    of a command that watched the job until it got here, and None if it goes on watching. `level` is
    how loudly a log line tells of it.
    """

    name: JobStatus
    waits_for: Literal["slot", "time", "outside", "person"] | None = None
    only_here: tuple[str, ...] = ()
    is_leased: bool = False
    is_terminal: bool = False
    after_run: bool = False
    dead_letter: str | None = None
    is_replayable: bool = False
    is_sent: bool = False
    exit_code: int | None = None
    level: Level = "info"


JOB_STATES = (
    JobState(PENDING, waits_for="slot"),
    JobState(
        SCHEDULED,
        waits_for="time",
        only_here=("next_retry_at", "awaits_effect", "queued_behind"),
    ),
    JobState(RUNNING, only_here=("worker_id",), is_leased=True, after_run=True),
    JobState(WAITING, waits_for="outside", after_run=True),
    JobState(
        NEEDS_REVIEW,
        waits_for="person",
        only_here=("diverged",),
        after_run=True,
        is_replayable=True,
        is_sent=True,
        exit_code=4,
        level="warning",
    ),
    JobState(SUCCEEDED, is_terminal=True, after_run=True, is_sent=True, exit_code=0),
    JobState(
        FAILED,
        is_terminal=True,
        after_run=True,
        dead_letter="permanent_error",
        is_replayable=True,
        is_sent=True,
        exit_code=3,
        level="error",
    ),
    JobState(CANCELLED, is_terminal=True, is_sent=True, exit_code=3),
    JobState(
        DEAD,
        is_terminal=True,
        dead_letter="attempts_exhausted",
        is_replayable=True,
        is_sent=True,
        exit_code=3,
        level="error",
    ),
)
"""In the order in which lists and documents name them."""


def states(asked: Callable[[JobState], object]) -> frozenset[str]:
    """The names of the states whose row answers a question with yes."""
    return frozenset(state.name for state in JOB_STATES if asked(state))


ENDED_ON_ENTRY: dict[str, dict[str, None]] = {
    state.name: {field: None for other in JOB_STATES if other != state for field in other.only_here}
    for state in JOB_STATES
}
"""By the state that a job enters: the fields that end with the state that it leaves."""
BY_NAME: dict[str, JobState] = {state.name: state for state in JOB_STATES}
NAMES = tuple(state.name for state in JOB_STATES)
TERMINAL = states(lambda state: state.is_terminal)
LIVE = states(lambda state: not state.is_terminal)
LEASED = states(lambda state: state.is_leased)
AFTER_RUN = states(lambda state: state.after_run)
MOVABLE = states(lambda state: state.waits_for not in (None, "person"))
"""A job in these goes on without a person, and may be moved to another pool meanwhile."""
FOR_A_PERSON = states(lambda state: state.waits_for == "person")
AT_REST = TERMINAL | FOR_A_PERSON
"""A job in these changes no more unless a person asks for it."""
DUE_LATER = states(lambda state: state.waits_for in ("time", "outside"))
"""A job in these may have a time at which it goes on."""
VISIBLY_WAITING = states(lambda state: state.waits_for in ("outside", "person"))
"""A job may stay in these for as long as it takes, and is shown to wait."""
STANDS_STILL = AT_REST | VISIBLY_WAITING
REPLAYABLE = states(lambda state: state.is_replayable)
IN_DEAD_LETTERS = states(lambda state: state.dead_letter is not None)
SENT = states(lambda state: state.is_sent)


def in_order(numbers: Mapping[str, int]) -> dict[str, int]:
    """Numbers by state in the order of the states; those of unknown states come last."""
    known = [name for name in NAMES if name in numbers]
    return {name: numbers[name] for name in (*known, *sorted(numbers.keys() - known))}

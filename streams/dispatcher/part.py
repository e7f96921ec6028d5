"""The contract of a part: one concern of the dispatcher, with its state, its commands and its time.

A part declares the key spaces that it owns in the store `parts`, and marks the methods that handle
commands and records. The stage has one list of all parts and calls their hooks in that order. Parts
do not import each other: they meet in `Shared`, in `Step`, and in the hooks.

State that is derived from jobs moves in `changed` alone, which is called with each change of a job
and, in reverse order with before and after exchanged, when changes are undone. Other state of a
part that is not in a store is reversed by `Step.on_undo`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from streams.dispatcher.live_index import Live
from streams.runtime.part import Declaration
from streams.runtime.processor import Context
from streams.serde.records import Envelope, Job
from streams.topology.model import Route

if TYPE_CHECKING:
    from streams.dispatcher.shared import Shared
    from streams.dispatcher.step import Step

AT_ONCE = 200
"""How many jobs, leases or events a part changes in one step: the transaction must end in time."""


class Change(NamedTuple):
    """One change of a job, as its entries in the index of live jobs (None: not there, or ended).

    `undone` says that the change is taken back: what it began has never happened.
    """

    job_id: str
    before: Live | None
    after: Live | None
    undone: bool = False

    def reversed(self) -> Change:
        """The change that takes this one back."""
        return Change(self.job_id, self.after, self.before, not self.undone)


class RowChange(NamedTuple):
    """A job's row as the last commit left it, and as it is now (None: there was, or is, none)."""

    before: Job | None
    after: Job | None

    @property
    def is_of_workflow(self) -> bool:
        """Whether the job belongs, or belonged, to a workflow."""
        return any(job is not None and job.workflow_id is not None for job in self)


class Part(Declaration):
    """One concern of one partition; each hook does nothing unless a part defines it."""

    awaits_logs: ClassVar[bool] = False
    """Whether `tick` is called only after all that was in the inputs at the takeover was read."""

    initiates_early: ClassVar[bool] = False
    """Whether `initiate` is called before that, too."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.topology = shared.topology

    def changed(self, change: Change) -> None:
        """A job changed, or a change was undone: correct what is derived from jobs. Never write."""

    def restored(self, ctx: Context) -> None:
        """The store is complete: load what is not derived from jobs."""

    def restoring(self, ctx: Context) -> Iterator[None]:
        """Load what may be much, after `restored` of all parts; yield after some 10 ms of work."""
        yield from ()

    def routed(self, step: Step, event: Envelope, route: Route, at: int, late: bool) -> None:
        """An event met its route; if the route gives it a job, that is made next.

        `at` is the event's time in milliseconds. If `late`, it had no route when it was read.
        """

    def admitted(self, step: Step, job: Job) -> None:
        """A new job was put in the table; an earlier part may have changed or ended it since."""

    def may_go_on(self, step: Step, job: Job) -> bool:
        """Whether a job may be leased or given up, or its run be heard.

        A part that says no has stopped it.
        """
        return True

    def begins(self, step: Step, job: Job) -> Job:
        """A waiting job is about to be leased: the job as its run gets it. Do not put it."""
        return job

    def starts(self, step: Step, job: Job) -> None:
        """A job's lease is sent: it runs, and the table will have it so."""

    def unbegun(self, step: Step, job: Job) -> None:
        """A worker refuses a job's lease: it will be ready again, or end."""

    def ended(self, step: Step, job: Job) -> None:
        """A job has ended, and the table has its end; a dead one may live again (`revived`)."""

    def revived(self, step: Step, job: Job) -> None:
        """A dead job lives again, under the same incarnation."""

    def replaced(self, step: Step, job: Job) -> None:
        """A finished job is about to be replaced in the table: its id lives again."""

    def forgotten(self, step: Step, job: Job) -> None:
        """A finished job was deleted from the table."""

    def written(self, ctx: Context, changes: Sequence[RowChange]) -> None:
        """Rows of jobs that belong to workflows are written, each once, as the step commits."""

    def handled(self, step: Step) -> None:
        """All records of this step are handled."""

    def tick(self, step: Step) -> None:
        """Time has passed: do a bounded part of what is due."""

    def rests(self) -> bool:
        """Whether `tick` has no work in hand that it would go on with soon."""
        return True

    def initiate(self, step: Step) -> Iterator[None]:
        """Send what no record causes; yield after each output, since the caller may stop there."""
        yield from ()

    def refused(self, step: Step, topic: str, key: str, detail: str, missing: bool) -> None:
        """The broker will never take an output of `initiate`, of this part or of another.

        `missing` says that its topic or partition does not exist.
        """

    def is_due(self, step: Step, live: Live) -> bool:
        """Whether a live job that the sweep comes by has to be looked at; costs no decoding."""
        return False

    def mend(self, step: Step, job: Job) -> bool:
        """Correct what no command corrects in a job that is due; whether anything changed."""
        return False

    def closed(self) -> None:
        """Another process owns the partition now: drop its gauges."""

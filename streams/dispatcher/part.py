"""The contract of a part: one concern of the dispatcher, with its state, its commands and its time.

A part declares the key spaces that it owns in the store `parts`, and marks the methods that handle
commands and records. The stage has one list of all parts and calls their hooks in that order. Parts
do not import each other: they meet in `Shared`, in `Step`, and in the hooks.

State that is derived from jobs moves in `changed` alone, which is called with each change of a job
and, in reverse order with before and after exchanged, when changes are undone. Other state of a
part that is not in a store is reversed by `Step.on_undo`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from streams.dispatcher.live_index import Live
from streams.runtime.processor import Context
from streams.serde.records import Job

if TYPE_CHECKING:
    from streams.dispatcher.shared import Shared
    from streams.dispatcher.step import Step

F = TypeVar("F", bound=Callable[..., None])


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


def handles(body: type) -> Callable[[F], F]:
    """Mark the method that applies commands with this body.

    It is called with the step, the command, its body, and the time of its record (milliseconds).
    It raises `PoisonRecord` if the command can never be applied.
    """
    return _marked("handles", body)


def reads(topic: str) -> Callable[[F], F]:
    """Mark the method that handles records of this input: it gets the step and the record."""
    return _marked("reads", topic)


class Part:
    """One concern of one partition; each hook does nothing unless a part defines it."""

    keys: ClassVar[dict[bytes, str]] = {}
    """Key spaces in the store `parts`: the first byte of the keys, and what they hold."""
    commands: ClassVar[dict[type, str]] = {}
    """Names of the methods marked with `handles`, by the command's body."""
    inputs: ClassVar[dict[str, str]] = {}
    """Names of the methods marked with `reads`, by the topic."""
    awaits_logs: ClassVar[bool] = False
    """Whether `tick` is called only after all that was in the inputs at the takeover was read."""

    def __init_subclass__(cls) -> None:
        methods = {name: vars(cls)[name] for name in vars(cls)}
        cls.commands = {m.handles: name for name, m in methods.items() if hasattr(m, "handles")}
        cls.inputs = {m.reads: name for name, m in methods.items() if hasattr(m, "reads")}

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.topology = shared.topology

    def changed(self, change: Change) -> None:
        """A job changed, or a change was undone: correct what is derived from jobs. Never write."""

    def restored(self, ctx: Context) -> None:
        """The store is complete: load what is not derived from jobs."""

    def admitted(self, step: Step, job: Job) -> None:
        """A new job is in the table."""

    def replaced(self, step: Step, job: Job) -> None:
        """A finished job is about to be replaced in the table: its id lives again."""

    def forgotten(self, step: Step, job: Job) -> None:
        """A finished job was deleted from the table."""

    def handled(self, step: Step) -> None:
        """All records of this step are handled."""

    def tick(self, step: Step) -> None:
        """Time has passed: do a bounded part of what is due."""

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


def _marked(kind: str, value: Any) -> Callable[[F], F]:
    def mark(method: F) -> F:
        setattr(method, kind, value)
        return method

    return mark

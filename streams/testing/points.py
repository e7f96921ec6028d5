"""The points at which a run can be lost, by their names; the worker dies at the one of the test."""

from __future__ import annotations

from collections.abc import Callable

from streams.serde.codec import JOB
from streams.serde.link import commands, frames
from streams.serde.link.messages import Order
from streams.serde.records import (
    AddChildren,
    AskApproval,
    Checkpoint,
    Claim,
    ClaimStep,
    CommandBody,
    Ended,
    Enqueue,
    Lease,
    Listen,
    Outcome,
    ReadChildren,
    SealGather,
)
from streams.serde.run_ends import PARKED
from streams.testing.crash_points import Crash
from streams.testing.pipeline_in_memory import PipelineInMemory

_KEPT = {
    "first": "it was kept which wait came first",
    "heartbeat": "the details of a heartbeat were kept",
    "patch": "the answer of ctx.patched was kept",
}
"""What a result says that is not the value of a step, by its kind."""


class Points:
    """Every point that the runs of one bench pass; `kill` ends the worker's process."""

    def __init__(self, crash: Crash | None, pipeline: PipelineInMemory) -> None:
        self.kill: Callable[[], None] = lambda: None
        self._crash = crash
        self._pipeline = pipeline
        self._jobs: dict[str, str] = {}

    def sent(self, order: Order, done: bool) -> None:
        """The worker is about to send a command or, when `done`, to hear that it was kept."""
        if self._crash is None:
            return
        command = commands.command(frames.encoded(order), 0)
        names = _names(command.body)
        if names is not None:
            self._passed(names[done], command.job_id, command.epoch)

    def leased(self, lease: Lease) -> None:
        """The worker is about to be given a lease."""
        if self._crash is not None:
            self._passed("before the run began", lease.job_id, lease.epoch)

    def step_begins(self, job_id: str, name: str) -> bool:
        """Whether the worker dies before a step's function is called."""
        return self._now(f"before step {name} ran", job_id)

    def decided(self, job_id: str, key: str, *, done: bool) -> None:
        """A person's decision is about to be sent or, when it is `done`, has been kept."""
        name = f"after the decision on {key} was kept" if done else f"before {key} was decided"
        self._now(name, job_id)

    def _now(self, name: str, job_id: str) -> bool:
        if self._crash is None:
            return False
        return self._passed(name, job_id, self._pipeline.job_records(job_id)[-1].epoch)

    def _passed(self, name: str, job_id: str, run: int) -> bool:
        dies = self._crash is not None and self._crash.happens_at(
            f"{name} (run {run} of {self._job(job_id)})"
        )
        if dies:
            self.kill()
        return dies

    def _job(self, job_id: str) -> str:
        """The type of a job, with its number if it is not the first of this type."""
        if job_id not in self._jobs:
            records = self._pipeline.output("jobs")
            types = {r.key: JOB.decode(r.value).type for r in records if r.value}
            type_ = types[job_id.encode()]
            alike = [key for key, each in types.items() if each == type_]
            number = alike.index(job_id.encode()) + 1
            self._jobs[job_id] = type_ if number == 1 else f"{type_}, job {number}"
        return self._jobs[job_id]


def _names(body: CommandBody) -> tuple[str, str] | None:
    """The points before a command is sent, and after it is kept; None if no run depends on it."""
    before = after = _kept(body)
    match body:
        case Claim() | ClaimStep() | Enqueue() | SealGather():
            after = f"{after}, before the run was answered"
        case Outcome(action=action):
            return (
                f"after effect {action} was called, before its outcome was kept",
                f"after {after}",
            )
        case Checkpoint(step=left) if left.kind == "step":
            return f"after step {left.id} ran, before its value was kept", f"after {after}"
    return None if before is None else (f"before {before}", f"after {after}")


def _kept(body: CommandBody) -> str | None:
    """The state of a job once a command is kept."""
    match body:
        case Claim(action=action):
            kept = f"effect {action} was claimed"
        case ClaimStep(step=id_):
            kept = f"step {id_} was claimed"
        case Outcome(action=action):
            kept = f"the outcome of effect {action} was kept"
        case Checkpoint(step=left):
            kept = _KEPT.get(left.kind, f"the value of step {left.id} was kept")
        case Listen(wait=wait):
            kept = f"the job listened to {wait.id}"
        case AskApproval(key=key):
            kept = f"people were asked for {key}"
        case Ended(status=status) if status == PARKED:
            kept = f"the job was parked for {', '.join(wait.id for wait in body.waits)}"
        case Ended(status=status):
            kept = f"the end of the run was kept: {status}"
        case _:
            return _kept_of_jobs(body)
    return kept


def _kept_of_jobs(body: CommandBody) -> str | None:
    """What is known of a job's own jobs once a command is kept."""
    match body:
        case Enqueue(child=child):
            return f"job {child.call} was made"
        case SealGather(id=id_):
            return f"the list of {id_} was sealed"
        case AddChildren(id=id_, first=first, children=some):
            return f"jobs {first + 1} to {first + len(some)} of {id_} were listed"
        case ReadChildren():
            return "it was asked how the jobs of a gather ended"
        case _:
            return None

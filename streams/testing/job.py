"""`Job`: one job of a bench, what it did so far, and what can be done to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

import orjson

from streams.dispatcher.settling import settleable_at
from streams.ledger import UNSETTLED
from streams.serde import records
from streams.serde.ids import replay_job_id
from streams.serde.records import TERMINAL, Cancel, Replay, Settle
from streams.testing.beside_loop import beside_loop
from streams.testing.flow import Flow, Stuck
from streams.testing.observed_app import Observer
from streams.testing.pipeline_in_memory import PipelineInMemory
from streams.testing.stops import Stop, Stops
from streams.testing.tools import Tools
from streams.testing.values import Call, DeadLetter, Effect, FailedRun
from streams.topology.model import LeasePolicy

_AUTHOR = "bench"


@dataclass(frozen=True, slots=True)
class JobParts:
    """What the jobs of one bench share."""

    pipeline: PipelineInMemory
    flow: Flow
    tools: Tools
    stops: Stops
    observer: Observer
    leases: LeasePolicy
    crash_worker: Callable[[], None]

    def raise_fault(self) -> None:
        """Fail the test for what it did not provide for."""
        fault, self.tools.fault = self.tools.fault, None
        if fault is not None:
            raise AssertionError(fault)


class Job:
    """One job; equal to another of the same id. Made by `Bench.event` and `Bench.submit`."""

    def __init__(self, job_id: str, parts: JobParts) -> None:
        self.id = job_id
        self._parts = parts

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.status}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def record(self) -> records.Job:
        """The job's newest record on the topic `jobs`."""
        return self._parts.pipeline.job_records(self.id)[-1]

    @property
    def status(self) -> str:
        """As docs/jobs.md lists them: `succeeded`, `failed`, `dead`, `needs_review`, ..."""
        return self.record.status

    @property
    def result(self) -> Any:
        """What the handler returned, as it reads back from JSON."""
        return _value(self.record.result)

    @property
    def error(self) -> str | None:
        """The newest error, as `Type: message`; what a cancelled job was cancelled for."""
        return self.record.last_error

    @property
    def attempts(self) -> int:
        """The attempts that were counted."""
        return self.record.attempts

    @property
    def steps(self) -> dict[str, Any]:
        """The value of each finished step, by its name."""
        return {
            name: _value(kept) for name, kept in self._parts.pipeline.steps(self.record).items()
        }

    @property
    def effects(self) -> list[Effect]:
        """The ledger's entries of the job's scope, in the order in which they were first claimed.

        A replay in the old scope has those of the job that it repeats.
        """
        return [self._effect(entry) for entry in self._parts.pipeline.entries(self.record)]

    @property
    def calls(self) -> list[Call]:
        """The calls of tools that this job made."""
        return [call for call in self._parts.tools.calls if call.job_id == self.id]

    @property
    def progress(self) -> list[Any]:
        """What the handler published, in order."""
        return [_value(each.value) for each in self._parts.pipeline.progress(self.id)]

    @property
    def failed_runs(self) -> list[FailedRun]:
        """Every run that did not succeed, in order, with the wait that followed it."""
        found: list[FailedRun] = []
        before: records.Attempt | None = None
        for record in self._parts.pipeline.job_records(self.id):
            newest = record.history[-1] if record.history else None
            if newest is not None and newest != before:
                found.append(_failed_run(newest, record))
            before = newest
        return found

    @property
    def dead_letter(self) -> DeadLetter | None:
        """Why the job stands in the dead letters; None if it does not."""
        letter = self._parts.pipeline.dead_letter(self.id)
        return None if letter is None else DeadLetter(letter.reason, letter.detail)

    @beside_loop
    def run(self, *, runs: int | None = None) -> Self:
        """Let the job go on until it has ended or waits for a person, its backoffs included.

        With `runs`, only until so many more runs are over.

        Raises:
            AssertionError: the job does not come to that.
        """
        if runs is not None and runs < 1:
            raise ValueError(f"run(runs={runs}): give a number of runs, or leave it out")
        until_epoch = self.record.epoch + (runs or 0) - (self.status == "running")
        self._parts.stops.go_on()

        def over() -> bool:
            record = self.record
            enough = runs is not None and record.epoch >= until_epoch
            return _is_at_rest(record) or (enough and record.status != "running")

        self._until(over, lambda: f"{self!r} ends or waits for a person")
        return self

    @beside_loop
    def pause_in(
        self, tool: str | None = None, *, step: str | None = None, done: bool = False
    ) -> Self:
        """Let the job go on until it calls a tool, or an action of it (`tool/key`), or a step.

        There it stands: before the function is called or, with `done`, after it has returned and
        before anybody was told. Then cancel, disconnect, crash, let time pass; `run` goes on.

        Raises:
            AssertionError: the job ended without it.
        """
        name = tool if tool is not None else step
        if name is None or (tool is not None and step is not None):
            raise TypeError("pause_in() and crash_in() take a tool or a step, and not both")
        stops = self._parts.stops
        stops.go_on()
        stops.set(Stop(self.id, name, step is not None, done))
        try:
            self._until(
                lambda: stops.was_reached or _is_at_rest(self.record),
                lambda: f"{self!r} calls {name!r}",
            )
            if not stops.was_reached:
                raise Stuck(f"{self!r} did not call {name!r}: {self.error or 'it ended without'}")
        finally:
            stops.drop()
        return self

    @beside_loop
    def crash_in(
        self, tool: str | None = None, *, step: str | None = None, done: bool = False
    ) -> Self:
        """Let the job go on into a call of a tool or a step, and kill the worker's process there.

        The claim is granted. Without `done` the process dies before the function is called, with
        it after the function has returned and before its outcome was recorded: the ledger cannot
        tell the two apart. A new process starts; `run` goes on.
        """
        self.pause_in(tool, step=step, done=done)
        self._parts.crash_worker()
        return self

    @beside_loop
    def cancel(self, reason: str = "") -> Self:
        """Cancel the job, as `tidegate jobs cancel` does; a handler that runs hears of it at once.

        Raises:
            Refused: the dispatcher refuses it.
        """
        self._ask(Cancel(reason, _AUTHOR), self.id)
        self._parts.flow.settle()
        self._parts.raise_fault()
        return self

    @beside_loop
    def settle_done(self, action: str, result: object = None, *, note: str = "found out") -> Self:
        """Say that an effect in review was done, as `tidegate jobs settle ... --done` does.

        The time passes first for which a settlement would be refused as `too_early`.

        Raises:
            Refused: as docs/effects.md lists the reasons.
        """
        self._settle(Settle(action, "done", orjson.dumps(result).decode(), note, _AUTHOR))
        return self

    @beside_loop
    def settle_not_done(self, action: str, *, note: str = "found out") -> Self:
        """Say that an effect in review was not done; the handler calls its tool again.

        Raises:
            Refused: as docs/effects.md lists the reasons.
        """
        self._settle(Settle(action, "failed", None, note, _AUTHOR))
        return self

    @beside_loop
    def replay(
        self,
        *,
        note: str = "replayed in a test",
        fresh_scope: bool = False,
        repeat_effects: Iterable[str] = (),
        again: bool = False,
        type: str | None = None,
    ) -> Job:
        """Replay the job as a new one, as `tidegate dlq replay` does, and return that.

        Raises:
            Refused: as docs/jobs.md lists the reasons.
        """
        new_id = replay_job_id(self.record.tenant_id, self.id, None)
        body = Replay(self.id, note, fresh_scope, _AUTHOR, again, tuple(repeat_effects), type)
        self._ask(body, new_id)
        return Job(new_id, self._parts)

    def _settle(self, body: Settle) -> None:
        wait = self._seconds_until_settleable(body.action)
        if wait:
            self._parts.flow.advance(wait)
        self._ask(body, self.id)

    def _seconds_until_settleable(self, action: str) -> float:
        """How long an operator would be told to wait; 0 for what is refused for another reason."""
        pipeline, record = self._parts.pipeline, self.record
        found = [entry for entry in pipeline.entries(record) if entry.action == action]
        if record.status != "needs_review" or not found or found[0].status not in UNSETTLED:
            return 0
        due = settleable_at(found[0], record, self._parts.leases)
        return max(0, due - pipeline.now) / 1000

    def _ask(self, body: Cancel | Settle | Replay, job_id: str) -> None:
        self._parts.pipeline.ask(body, self.record.tenant_id, job_id)

    def _until(self, condition: Callable[[], bool], what: Callable[[], str]) -> None:
        parts = self._parts
        parts.flow.until(lambda: parts.tools.fault is not None or condition(), what)
        parts.raise_fault()

    def _effect(self, entry: records.LedgerEntry) -> Effect:
        tool, _, key = entry.action.partition("/")
        return Effect(
            tool, key, self._parts.observer.arguments.get(entry.digest, {}), entry.status,
            _value(entry.result), entry.error, entry.idempotency_key, entry.settled_by, entry.note,
        )  # fmt: skip


def _is_at_rest(job: records.Job) -> bool:
    return job.status in TERMINAL or job.status == "needs_review"


def _failed_run(run: records.Attempt, record: records.Job) -> FailedRun:
    waits = record.status == "scheduled" and record.next_retry_at is not None
    retry_in = ((record.next_retry_at or 0) - run.at) / 1000 if waits else None
    return FailedRun(run.attempt, run.kind, run.error, retry_in)


def _value(text: str | bytes | None) -> Any:
    return None if text is None else orjson.loads(text)

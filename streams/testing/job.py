"""`Job`: one job of a bench, and what a test can do to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Self

from streams.ledger import settleable_at
from streams.serde import records
from streams.serde.effect_scopes import is_shared, noted, once_per
from streams.serde.effect_states import DONE, FAILED, UNSETTLED
from streams.serde.ids import replay_job_id
from streams.serde.job_states import AT_REST, DUE_LATER, LEASED, STANDS_STILL
from streams.serde.records import Cancel, Decide, Replay, Settle, SettleSteps
from streams.testing.beside_loop import beside_loop
from streams.testing.flow import Stuck
from streams.testing.job_view import JobView
from streams.testing.refused import require_json
from streams.testing.stops import Stop

_AUTHOR = "bench"


class Job(JobView):
    """One job; `Bench.event` and `Bench.submit` make it."""

    @property
    def children(self) -> list[Job]:
        """The jobs that it asked for, in the order in which they were made."""
        found = self._behind.pipeline.children(self.id)
        return [Job(child.job_id, self._behind) for child in found]

    @beside_loop
    def run(self, *, runs: int | None = None) -> Self:
        """Let the job go on until it has ended, is parked or waits for a person.

        Its backoffs are included, and so are the jobs that it asked for and waits for. A parked job
        goes on with what it waits for: `Bench.deliver` an event, or `Bench.advance` the time. With
        `runs`, only until so many more runs are over.

        Raises:
            AssertionError: the job does not come to that.
        """
        if runs is not None and runs < 1:
            raise ValueError(f"run(runs={runs}): give a number of runs, or leave it out")
        until_epoch = self.record.epoch + (runs or 0) - (self.status in LEASED)
        self._behind.stops.go_on()

        def over() -> bool:
            record = self.record
            enough = runs is not None and record.epoch >= until_epoch
            return self._is_at_rest(record) or (enough and record.status not in LEASED)

        self._until(over, lambda: f"{self!r} ends, is parked or waits for a person")
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
        name, stops = _named(tool, step), self._behind.stops
        stops.go_on()
        stops.set(Stop(self.id, name, step is not None, done))
        try:
            self._until(
                lambda: stops.was_reached or _stands_still(self.record),
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
        self._behind.crash_worker()
        return self

    @beside_loop
    def cancel(self, reason: str = "") -> Self:
        """Cancel the job, as `tidegate jobs cancel` does; a handler that runs hears of it at once.

        Raises:
            Refused: the dispatcher refuses it.
        """
        self._ask(Cancel(reason, _AUTHOR), self.id)
        self._behind.flow.settle()
        self._behind.raise_fault()
        return self

    @beside_loop
    def settle_done(self, action: str, result: object = None, *, note: str = "found out") -> Self:
        """Say that an effect in review was done, as `tidegate jobs settle ... --done` does.

        `action` is as `Effect.action` has it. The time passes first for which a settlement would be
        refused as `too_early`.

        Raises:
            Refused: as docs/effects.md lists the reasons, or `not_json`.
        """
        text = require_json(result, "the result")
        self._settle(action, Settle("", DONE, text, note, _AUTHOR))
        return self

    @beside_loop
    def settle_not_done(self, action: str, *, note: str = "found out") -> Self:
        """Say that an effect in review was not done; the handler calls its tool again.

        Raises:
            Refused: as docs/effects.md lists the reasons.
        """
        self._settle(action, Settle("", FAILED, None, note, _AUTHOR))
        return self

    @beside_loop
    def settle_steps(
        self, *, keep: Iterable[str] = (), drop: Iterable[str] = (), note: str = "found out"
    ) -> Self:
        """Let a job go on that waits because its code changed, as `tidegate jobs steps` does.

        `keep` and `drop` are ids of finished steps; without both, the job just runs again.

        Raises:
            Refused: the job did not diverge, or has no such step.
        """
        run = self.record.run_id or ""
        self._ask(SettleSteps(run, tuple(keep), tuple(drop), note, _AUTHOR), self.id)
        return self

    @beside_loop
    def approve(self, key: str, *, note: str = "", edit: object = None, by: str = _AUTHOR) -> Self:
        """Approve what the job asks for, as `tidegate approvals approve` does.

        `key` is that of `ctx.approval`, or the action of a proposed effect (`tool/key`). `edit` are
        the changed arguments.

        Raises:
            Refused: as docs/approvals.md lists the reasons, or `not_json`.
        """
        self._decide(key, self._behind.people.decision(self.record, key, True, by, note, edit))
        return self

    @beside_loop
    def reject(self, key: str, *, note: str = "", by: str = _AUTHOR) -> Self:
        """Reject what the job asks for, as `tidegate approvals reject` does.

        Raises:
            Refused: as docs/approvals.md lists the reasons.
        """
        self._decide(key, self._behind.people.decision(self.record, key, False, by, note, None))
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
        return Job(new_id, self._behind)

    def _decide(self, key: str, decision: Decide) -> None:
        self._behind.points.decided(self.id, key, done=False)
        self._ask(decision, self.id)
        self._behind.points.decided(self.id, key, done=True)

    def _settle(self, action: str, body: Settle) -> None:
        scope, action = noted(action) if is_shared(action) else (self.record.scope, action)
        wait = self._seconds_until_settleable(scope, action)
        if wait:
            self._behind.flow.advance(wait)
        self._ask(replace(body, action=action, once_per=once_per(scope)), self.id)

    def _seconds_until_settleable(self, scope: str, action: str) -> float:
        """How long an operator would be told to wait; 0 for what is refused for another reason."""
        pipeline, record = self._behind.pipeline, self.record
        asked = pipeline.entries(record)
        found = [entry for entry in asked if (entry.scope, entry.action) == (scope, action)]
        ended = record.status in AT_REST
        if not ended or not found or found[0].status not in UNSETTLED:
            return 0
        due = settleable_at(found[0], record, self._behind.leases.term_seconds)
        return max(0, due - pipeline.now) / 1000

    def _ask(self, body: Cancel | Settle | SettleSteps | Replay | Decide, job_id: str) -> None:
        self._behind.pipeline.ask(body, self.record.tenant_id, job_id)

    def _is_at_rest(self, job: records.Job) -> bool:
        """Whether it stands still, and so do the jobs below it that it may wait for."""
        if job.status not in STANDS_STILL:
            return False
        if not any(wait.kind in ("job", "gather") for wait in job.waits):
            return True
        return all(map(self._is_at_rest, self._behind.pipeline.children(job.job_id)))

    def _until(self, condition: Callable[[], bool], what: Callable[[], str]) -> None:
        behind = self._behind
        behind.flow.until(lambda: behind.tools.fault is not None or condition(), what)
        behind.raise_fault()


def _stands_still(record: records.Job) -> bool:
    """Whether no time makes the job go on."""
    return record.status in STANDS_STILL and not (record.status in DUE_LATER and record.due_at)


def _named(tool: str | None, step: str | None) -> str:
    name = step if tool is None else tool
    if name is None or (tool is not None and step is not None):
        raise TypeError("pause_in() and crash_in() take a tool or a step, and not both")
    return name

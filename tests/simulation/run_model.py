"""One run of a scripted handler, under the rules of `streams/worker`, as a coroutine of ticks.

A run asks before each effect, calls out, records the outcome, in this order. It starts nothing
once its lease is no longer valid or somebody has ended it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
from support.step_results import left, values_of

from simulation.handlers import SCRIPTS, fate, root_of, subject_of
from simulation.outside import TOOLS, Call
from simulation.wiring import ANSWER, SOURCE
from streams.event_match import match_of
from streams.serde.ids import new_id
from streams.serde.records import (
    Checkpoint,
    Claim,
    CommandBody,
    Ended,
    Lease,
    Outcome,
    Reply,
    StepResult,
    Wait,
)
from streams.worker.handler.run_session import LATE_SECONDS
from streams.worker.lease.held_leases import Held

if TYPE_CHECKING:
    from simulation.worker_model import WorkerModel

MARGIN, RESEND = 5.0, 2.0
DIGEST = b"d" * 32
Ticks = Generator[None, None, None]
Answered = Generator[None, None, bool]
"""A coroutine of ticks that says whether the run goes on."""


class RunModel:
    """`verdict` says how somebody else ended the run, `over` that nothing is left to say of it."""

    def __init__(self, worker: WorkerModel, held: Held) -> None:
        self.held = held
        self.over = False
        self.verdict: str | None = None
        self._why = ""
        self._worker = worker
        self._ticks: Ticks = self._handle()
        self._claim: Claim | None = None
        self._reply: Reply | None = None
        self._calling = False

    @property
    def lease(self) -> Lease:
        return self.held.lease

    @property
    def running(self) -> bool:
        """Whether it has a slot."""
        return self.held.running

    @property
    def started(self) -> bool:
        return self.held.started_at != math.inf

    @property
    def active(self) -> bool:
        """Whether it may begin something now."""
        valid = self._worker.seconds < self.held.valid_until
        return self.running and self.started and self.verdict is None and valid

    def stop(self, verdict: str, why: str = "") -> None:
        """End the run; the first verdict stands."""
        if self.verdict is None and self.running:
            self.verdict, self._why = verdict, why
            self._worker.tell("stops", self.lease.job_id, self.lease.epoch, verdict, why)

    def answered(self, reply: Reply) -> None:
        if self._claim is not None and self._claim.claim_id == reply.claim_id:
            self._reply = self._reply or reply

    def advance(self) -> None:
        """As far as it gets without time passing."""
        now = self._worker.seconds
        if self.running and now >= self.held.valid_until:
            self.stop("lost", "no heartbeat was acknowledged in time")
        elif self.running and now >= self.held.timeout_at:
            self.stop("retry", "TimeoutError: it ran too long")
        if self.running and self.verdict is not None:
            self._interrupted(self.verdict)
        if self.started or self.verdict is not None or not self.running:
            next(self._ticks, None)

    def _interrupted(self, verdict: str) -> None:
        """The handler is cancelled; what a call under way did is unknown."""
        claim, self._claim = self._claim, None
        if claim is not None and self._calling:
            self._tell_outcome(claim, "unknown")
        elif claim is not None and (self._reply is None or self._reply.kind == "granted"):
            repeat = self._reply.repeat if self._reply else claim.key_lifetime_ms > 0
            self._tell_outcome(claim, "unknown" if repeat else "failed")
        if verdict == "lost":
            self._worker.held_leases.vacate(self.held)
            self._worker.lost(self.lease)
            self._ticks, self.over = _nothing(), True
        else:
            self._ticks = self._end(verdict, self._why)

    def _handle(self) -> Ticks:
        script = SCRIPTS[self.lease.type]
        while self._worker.seconds < self.held.started_at + script.seconds:
            yield
        for action in script.actions:
            if action == "die":
                self._worker.killed_by(self.lease)
                return
            kind = action.partition(":")[0]
            does = {"step": self._step, "wait": self._wait, "race": self._race}
            if not (yield from does.get(kind, self._effect)(action)):
                return
        yield from self._end(*fate(self._worker.dice, self.lease))

    def _step(self, action: str) -> Answered:
        name = action.partition(":")[2]
        if name in values_of(self.lease.steps):
            return True
        body = Checkpoint(self.lease.run_id, *left({name: '"done"'}))
        return (yield from self._said(body, lambda: self.held.valid_until))

    def _wait(self, action: str) -> Answered:
        """Wait for an answer, behind the one that the wait before got."""
        if self._left(action.partition(":")[2]):
            return True
        yield from self._park(self._answer(action.partition(":")[2]))
        return False

    def _race(self, action: str) -> Answered:
        """Wait for an answer or a time, whichever comes first."""
        if self._left("event") or self._left("time"):
            return True
        seconds = int(action.partition(":")[2])
        time = Wait("time", "time", 1, b"", group=0, timeout_ms=seconds * 1000)
        yield from self._park(self._answer("event"), time)
        return False

    def _answer(self, id_: str) -> Wait:
        given = {"source": SOURCE, "event_type": ANSWER, "subject": subject_of(self.lease)}
        match = match_of(given).text()
        wait = Wait(id_, "event", 0, b"", group=0, match=match, since="job")
        before = self._left("event") if id_ == "event#2" else None
        if before is None:
            return wait
        taken = orjson.loads(before.value or "")
        event_id, since = taken["event"]["event_id"], str(taken["at"])
        return replace(wait, behind=taken["number"], after_event=event_id, since=since)

    def _left(self, id_: str) -> StepResult | None:
        return next((each for each in self.lease.steps if each.id == id_), None)

    def _park(self, *waits: Wait) -> Ticks:
        yield from self._end("parked", "", waits)

    def _effect(self, action: str) -> Answered:
        claim = Claim(
            self._worker.id,
            self._worker.work_partition,
            new_id("clm"),
            self.lease.run_id,
            action,
            DIGEST,
            TOOLS[action.partition("/")[0]].key_ms,
        )
        reply = yield from self._ask(claim)
        if reply.kind == "granted":
            return (yield from self._perform(claim, reply))
        self._claim = None
        if reply.kind == "done":
            return True
        yield from self._turned_down(reply)
        return False

    def _ask(self, claim: Claim) -> Generator[None, None, Reply]:
        """Claim again and again: a reply may be lost with the process that sends it."""
        self._claim, self._reply, asked = claim, None, -RESEND
        while self._reply is None:
            if self._worker.seconds - asked >= RESEND:
                asked = self._worker.seconds
                now = replace(claim, reply_partition=self._worker.work_partition)
                # No repetition of a claim may follow the word that it is not begun.
                self._worker.post(
                    self.lease, now, lambda: self.held.valid_until if self._claim is claim else -1.0
                )
            yield
        return self._reply

    def _perform(self, claim: Claim, reply: Reply) -> Answered:
        worker, lease = self._worker, self.lease
        tool, root = claim.action.partition("/")[0], root_of(lease)
        self._calling = True
        answer = worker.outside.call(
            Call(
                worker.true_ms,
                tool,
                reply.idempotency_key,
                lease.tenant_id,
                lease.scope,
                claim.action,
                root,
                worker.id,
            )
        )
        worker.tell("calls", claim.action, "of", lease.job_id, lease.epoch, answer)
        for _ in range(worker.dice.of("lasts", root, claim.action).choice((0, 0, 1, 3))):
            yield
        self._claim, self._calling = None, False
        if answer == "ok":
            return (yield from self._record(claim, "done", '"done"'))
        settled = answer == "refused" and not reply.repeat
        if (yield from self._record(claim, "failed" if settled else "unknown")):
            yield from self._end("retry", f"{answer}: {claim.action}")
        return False

    def _turned_down(self, reply: Reply) -> Ticks:
        match reply.kind:
            case "review":
                yield from self._end("review", reply.message)
            case "cancel":
                yield from self._end("cancelled", reply.message)
            case "held" | "refused":
                yield from self._end("failed", f"{reply.kind}: {reply.message}")
            case _:
                self.stop("lost", reply.message)
                yield

    def _end(self, status: str, error: str, waits: tuple[Wait, ...] = ()) -> Ticks:
        """Tell how it ended; nothing else of this run follows."""
        told: Any = status
        worker = self._worker
        worker.world.spoke(self.lease, status)
        worker.held_leases.vacate(self.held)
        free, received = worker.held_leases.tell(self.lease.home_partition)
        result = '"ok"' if status == "succeeded" else None
        ended = Ended(
            worker.id,
            self.lease.run_id,
            free,
            told,
            result,
            error or None,
            None,
            received,
            traceback=None,
            waits=waits,
        )
        worker.heartbeater.tell()
        if not (yield from self._said(ended, lambda: self.held.valid_until)):
            worker.lost(self.lease)
        self.over = True

    def _record(self, claim: Claim, status: Any, result: str | None = None) -> Answered:
        body = Outcome(claim.claim_id, claim.run_id, claim.action, status, result, None)
        return (yield from self._said(body, self._worth_telling(body)))

    def _tell_outcome(self, claim: Claim, status: Any) -> None:
        body = Outcome(claim.claim_id, claim.run_id, claim.action, status, None, "interrupted")
        self._worker.post(self.lease, body, self._worth_telling(body))

    def _worth_telling(self, body: Outcome) -> Callable[[], float]:
        late = 0.0 if body.status == "unknown" else LATE_SECONDS
        return lambda: self.held.expires_at + late

    def _said(self, body: CommandBody, until: Callable[[], float]) -> Answered:
        """Wait until it is durable; a run that cannot say it is lost."""
        state: list[bool] = []
        self._worker.post(self.lease, body, until, state.append)
        while not state:
            yield
        if not state[0]:
            self.stop("lost", f"{type(body).__name__} could not be sent in time")
            if self.running:
                yield
        return state[0]


def _nothing() -> Ticks:
    yield from ()

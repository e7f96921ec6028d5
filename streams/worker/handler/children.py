"""The jobs that a handler asks for, one by one: each is made once, whatever becomes of the run."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, TypeVar

from streams.errors import ChildConflict, LeaseLost, PermanentError
from streams.serde.ids import new_id
from streams.serde.records import ChildSpec, Enqueue, ReadChildren, Reply, SealGather, Wait
from streams.serde.run_ends import CANCELLED, CONTINUED
from streams.serde.step_ids import CHILD, end_id, is_inside
from streams.worker.handler.asking import ask
from streams.worker.handler.branches import current_branch
from streams.worker.handler.calls import Call, check_label
from streams.worker.handler.divergence import may_begin
from streams.worker.handler.history import History
from streams.worker.handler.redacted import clean_json
from streams.worker.handler.run_result import RunResult, RunStopped
from streams.worker.handler.run_session import RunSession
from streams.worker.handler.steps import Steps
from streams.worker.handler.values import digest, from_json, is_label, to_json
from streams.worker.handler.wait_calls import Span, span_ms
from streams.worker.handler.waits import Pending, Waits
from streams.worker.link.replies import Replies

_Asked = TypeVar("_Asked", Enqueue, SealGather, ReadChildren)

Whose = tuple[str, str]
"""What a question begins with: its worker, the partition for the answer, its claim and its run."""
ON_PARENT = ("cancel", "abandon")
_LABEL_CHARS = 256


class Child(Pending):
    """A job that the handler asked for: await it for its result, as often as you like.

    It raises `ChildFailed` if the job ended without success. Like any wait it may be given to
    `ctx.first` and `ctx.all`.
    """

    __slots__ = ()

    @property
    def job_id(self) -> str:
        return self.asked.job_id or ""


@dataclass(frozen=True, slots=True)
class ChildCall:
    """A job that a handler would gather, as `ctx.child` makes it."""

    type: str
    input: str
    digest: bytes
    key: str | None
    priority: str | None
    delay_ms: int | None
    abandoned: bool

    @property
    def evidence(self) -> tuple[str, str | None]:
        """What a list of other jobs, or in another order, differs in."""
        return self.digest.hex(), self.key

    def spec(self, call: str, traceparent: str | None) -> ChildSpec:
        """What the dispatcher makes the job of."""
        what = self.type, self.input, self.digest, self.priority, self.delay_ms, self.abandoned
        return ChildSpec(call, *what, traceparent)


def child_call(
    type_: str,
    value: object,
    key: str | None,
    priority: str | None,
    delay: Span | None,
    on_parent: str,
) -> ChildCall:
    """Check what a handler asks for.

    Raises:
        PermanentError: the input is no JSON, or another argument cannot be used.
    """
    if key is not None:
        check_label(key, f"job {type_!r}: key")
    if not is_label(type_, _LABEL_CHARS):
        raise PermanentError(f"job type {type_!r}: use a string of 1 to {_LABEL_CHARS} characters")
    if on_parent not in ON_PARENT:
        raise PermanentError(f'on_parent={on_parent!r}: use "cancel" or "abandon"')
    if priority is not None and not is_label(priority, _LABEL_CHARS):
        raise PermanentError(f"priority={priority!r}: use the name of a declared priority")
    text = to_json(value, f"the input of job {type_}")
    evidence = digest({"type": type_, "input": from_json(text)}, f"job {type_}")
    abandoned = on_parent == "abandon"
    return ChildCall(type_, text, evidence, key, priority, span_ms(delay, "delay"), abandoned)


class Children:
    """The jobs that one run asks for."""

    def __init__(
        self,
        session: RunSession,
        history: History,
        steps: Steps,
        waits: Waits,
        replies: Replies,
    ) -> None:
        self._session = session
        self._history = history
        self._steps = steps
        self._waits = waits
        self._replies = replies

    def enqueue(self, asked: ChildCall, wait: bool) -> Coroutine[Any, Any, Any]:
        """See `Context.enqueue`."""
        call = self._history.call(asked.type, kind=CHILD, digest=asked.digest, key=asked.key)
        coroutine = self._enqueued(call, asked, wait)
        self._history.carried_by(call, coroutine)
        return coroutine

    def continue_as_new(self, value: object) -> NoReturn:
        """See `Context.continue_as_new`."""
        self._session.check()
        if is_inside(current_branch()):
            raise PermanentError("continue_as_new: call it in the handler itself, not in a step")
        if self._session.is_calling:
            raise PermanentError("continue_as_new: another task calls a tool: await it first")
        what = "the input of the next incarnation"
        text = clean_json(to_json(value, what), self._session.redaction, what)
        self._session.stop(RunResult(CONTINUED, result=text))
        raise RunStopped("the job continues as a new one")

    async def ask(self, body: Callable[[Whose], _Asked]) -> Reply:
        """The dispatcher's answer.

        Raises:
            ChildConflict: the same call asked for something else before.
            PermanentError: what is asked for cannot be done.
            LeaseLost: the run is over.
        """
        claim_id = new_id("clm")

        def asked() -> _Asked:
            run_id = self._session.lease.run_id
            return body((claim_id, run_id))

        reply = await ask(self._session, self._replies, claim_id, asked)
        if reply.kind == "conflict":
            raise ChildConflict(reply.message)
        if reply.kind == "refused":
            raise PermanentError(reply.message)
        if reply.kind == "cancel":
            self._session.stop(RunResult(CANCELLED, error=reply.message))
            raise RunStopped(reply.message)
        if reply.kind != "made":
            self._session.lose(reply.message or "the dispatcher gave the job to another run")
            raise LeaseLost(f"run {self._session.lease.run_id} is over: it asks for nothing more")
        return reply

    async def _enqueued(self, call: Call, asked: ChildCall, wait: bool) -> Any:
        try:
            with self._session.busy():
                child = await self._once(call, asked)
        finally:
            self._history.ended(call)
        return await child if wait else child

    async def _once(self, call: Call, asked: ChildCall) -> Child:
        self._session.check()
        left = self._history.found(call)
        if left is None:
            await may_begin(self._session, self._history, call)
            left = self._history.result(call, value=to_json({"job_id": "job_" + "0" * 26}, "child"))
            await self._steps.keep_by(left, partial(self._made, left, asked))
            left = self._history.found(call) or left
        if left.digest != call.digest:
            raise ChildConflict(f"{call.id} asked for a job with another input before")
        return self._child(call, from_json(left.value)["job_id"])

    async def _made(self, left: Any, asked: ChildCall) -> Any:
        spec = asked.spec(left.id, self._session.traceparent)
        reply = await self.ask(lambda whose: Enqueue(*whose, left, spec))
        return replace(left, value=reply.result)

    def _child(self, call: Call, job_id: str) -> Child:
        """The job as a wait for its end. The wait is no call of the handler, so it has no place."""
        evidence = digest({"kind": "job", "job_id": job_id}, call.id)
        waited = Call(end_id(call.id), "job", call.name, call.branch, 1, -1, evidence, call.key)
        wait = Wait(waited.id, "job", -1, evidence, job_id=job_id)
        return Child(self._waits, waited, wait, _same)


async def _same(value: Any) -> Any:
    return value

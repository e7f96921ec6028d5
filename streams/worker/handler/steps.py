"""`ctx.step`: does a piece of work once, because its value is kept with the job."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from streams.errors import PermanentError
from streams.serde.codec import STEP_RESULT
from streams.serde.records import Checkpoint, Lease, StepResult
from streams.serde.sizes import MAX_LEASE_BYTES
from streams.tracing.conventions import STEP
from streams.tracing.spans import child
from streams.worker.handler.artifacts import Artifacts
from streams.worker.handler.branches import inside
from streams.worker.handler.calls import Call
from streams.worker.handler.divergence import may_begin
from streams.worker.handler.history import History
from streams.worker.handler.invoke import call as invoked
from streams.worker.handler.model_calls import ModelCalls
from streams.worker.handler.room import check_model
from streams.worker.handler.run_session import RunSession
from streams.worker.handler.values import digest

log = structlog.get_logger(__name__)

STEP_KIND = "step"
MAX_TOTAL_BYTES = 512 * 1024
"""The limit of all steps of one job."""
_BESIDE_BYTES, _LEAST_BYTES = 40 * 1024, 32 * 1024
"""What a lease holds beside the input, the event's attributes, and what steps and waits left (the
details of a heartbeat among it); what these have beside any input."""

MAX_STEPS = 10_000


class Steps:
    """The steps of one run, and the values that earlier runs left."""

    def __init__(
        self, session: RunSession, history: History, models: ModelCalls, artifacts: Artifacts
    ) -> None:
        self._session = session
        self._artifacts = artifacts
        self._history = history
        self._models = models
        lease = session.lease
        self._sizes = {left.id: _size(left) for left in lease.steps}
        self._total = sum(self._sizes.values())
        self._of_steps = sum(self._sizes[left.id] for left in lease.steps if left.kind == STEP_KIND)
        self._most = max(_LEAST_BYTES, MAX_LEASE_BYTES - _BESIDE_BYTES - _given(lease))

    def step(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        key: str | None = None,
        was: str | None = None,
        strict: bool = False,
        model: str | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """See `Context.step`."""
        check_model(model, f"step {name!r}")
        if not callable(function):
            raise PermanentError(
                f"step {name!r}: {function!r} is no function: give the function and its arguments, "
                "and do not call it"
            )
        evidence = _digest(args, kwargs)
        call = self._history.call(name, kind=STEP_KIND, digest=evidence, key=key, was=was)
        coroutine = self._run(call, partial(function, *args, **kwargs), strict, model)
        self._history.carried_by(call, coroutine)
        return coroutine

    async def _run(
        self, call: Call, function: Callable[[], Any], strict: bool, model: str | None
    ) -> Any:
        with self._session.busy():
            return await self._once(call, function, strict, model)

    async def _once(
        self, call: Call, function: Callable[[], Any], strict: bool, model: str | None
    ) -> Any:
        try:
            self._session.check()
            left = self._history.found(call)
            if left is None:
                await may_begin(self._session, self._history, call)
                with child(f"step {call.name}", {STEP: call.name}):
                    left = await self._begin(call, function, model)
            elif _is_changed(left, call):
                await self._changed(left, call, strict)
        finally:
            self._history.ended(call)
        return await self._artifacts.value(left.value)

    async def _begin(
        self, call: Call, function: Callable[[], Any], model: str | None
    ) -> StepResult:
        if model is None:
            return await self._made(call, function)
        async with self._models.call(call.id, model) as claim_id:
            return await self._made(call, function, claim_id)

    async def _made(
        self, call: Call, function: Callable[[], Any], claim_id: str = ""
    ) -> StepResult:
        self._session.check()
        self._session.live.begin(call.id)
        with inside(call.id):
            value = await invoked(function)
        # What is kept is what the handler gets, also the first time.
        what = f"the value of step {call.id!r}"
        text = await self._artifacts.text(value, what, f"step/{call.id}")
        left = self._history.result(call, value=text)
        await self.keep(left, claim_id)
        return left

    async def keep(self, left: StepResult, claim_id: str = "") -> None:
        """Make a result durable, after the marks that were made before it."""
        await self.keep_marks()
        await self._keep(left, claim_id)

    async def keep_by(self, left: StepResult, ask: Callable[[], Awaitable[StepResult]]) -> None:
        """Have the dispatcher make a result that takes about as much as `left`, and keep it."""
        await self.keep_marks()
        async with self._reserved(left):
            self._history.kept(await ask())

    async def keep_marks(self) -> None:
        """Make durable what `ctx.patched` has answered; call this before a park, too."""
        for mark in self._history.new_marks():
            await self._keep(mark)

    def check_room(self, size: int = 0) -> None:
        """Return if what steps and waits left, and so many bytes more, fits the next run's lease.

        Raises:
            PermanentError: it does not.
        """
        if self._total + size > self._most:
            raise PermanentError(
                f"this job's {len(self._sizes):,} finished steps and waits left {self._total:,} "
                f"bytes, and a run is given {self._most:,}: let another job go on after fewer"
            )

    async def _keep(self, left: StepResult, claim_id: str = "") -> None:
        async with self._reserved(left):
            await self._session.say(Checkpoint(self._session.lease.run_id, left, claim_id))
            self._history.kept(left)

    @asynccontextmanager
    async def _reserved(self, left: StepResult) -> AsyncIterator[None]:
        # Reserve before awaiting, so that steps which end at the same time count each other.
        self._reserve(left)
        try:
            self._session.check()
            yield
        except BaseException:
            self._count(left, -self._sizes.pop(left.id, 0))
            raise

    async def _changed(self, left: StepResult, call: Call, strict: bool) -> None:
        """Show the operator that the arguments are others than those that gave the value."""
        if strict:
            raise PermanentError(
                f"step {call.id!r} has a value for other arguments: ask for it under another name "
                "or key, or without strict=True"
            )
        if not left.changed_args:
            log.warning("a step keeps the value of other arguments", step=call.id)
            shown = replace(left, changed_args=True)
            await self._session.say(Checkpoint(self._session.lease.run_id, shown))
            self._history.kept(shown)

    def _reserve(self, left: StepResult) -> None:
        size, number = _size(left), len(self._sizes)
        if left.id in self._sizes:
            return  # a mark that another step keeps just now
        if left.kind == STEP_KIND and self._of_steps + size > MAX_TOTAL_BYTES:
            raise PermanentError(
                f"step {left.id!r} has {size:,} bytes: with the {self._of_steps:,} of the others "
                f"the steps of this job hold more than {MAX_TOTAL_BYTES:,} bytes: store large "
                "values elsewhere and keep where they lie"
            )
        self.check_room(size)
        if number >= MAX_STEPS:
            raise PermanentError(
                f"step {left.id!r}: this job has {number:,} finished steps, the most that it may "
                "have: do several things in one step, or in several jobs"
            )
        self._sizes[left.id] = size
        self._count(left, size)

    def _count(self, left: StepResult, size: int) -> None:
        self._total += size
        self._of_steps += size if left.kind == STEP_KIND else 0


def _given(lease: Lease) -> int:
    """The bytes of what the job was made of."""
    attributes = lease.event.attributes if lease.event is not None else {}
    texts = (lease.input, *attributes, *attributes.values())
    return sum(len(text.encode()) for text in texts)


def _size(left: StepResult) -> int:
    return len(STEP_RESULT.encode(left))


def _digest(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
    """The digest of a step's arguments; empty if they are not JSON, which they need not be."""
    try:
        return digest({"args": args, "kwargs": dict(kwargs)}, "step")
    except PermanentError:
        return b""


def _is_changed(left: StepResult, call: Call) -> bool:
    return bool(left.digest and call.digest) and left.digest != call.digest

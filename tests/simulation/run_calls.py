"""The steps and waits of a run, held against what its job has by the product's own `History`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from simulation.handlers import subject_of
from simulation.wiring import ANSWER, SOURCE
from streams.errors import HistoryDiverged
from streams.event_match import match_of
from streams.serde.records import Checkpoint, StepResult, Wait
from streams.worker.handler.history import Call, History
from streams.worker.handler.run_result import describe

if TYPE_CHECKING:
    from simulation.run_model import RunModel

Ticks = Generator[None, None, None]
Answered = Generator[None, None, bool]
"""A coroutine of ticks that says whether the run goes on."""


def at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine of the product gives that need not wait."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    coroutine.close()
    raise InterruptedError("it waits")


def step(run: RunModel, asked: str) -> Answered:
    """`Context.step`: the value of a step is the name of its function."""
    names, _, was = asked.partition("<")
    name, _, function = names.partition("=")
    call = run.history.call(name, kind="step", was=was or None)
    if run.history.found(call) is None:
        if not (yield from may_begin(run, call)):
            return False
        claim_id = yield from run.thinks(name, function or name)
        if claim_id is None:
            return False
        run.worker.world.works(run.lease, call.id, function or name)
        left = run.history.result(call, value=orjson.dumps(function or name).decode())
        checkpoint = Checkpoint(run.lease.run_id, left, claim_id)
        if not (yield from run.said(checkpoint, lambda: run.held.valid_until)):
            return False
        run.history.kept(left)
    run.history.ended(call)
    return True


def may_begin(run: RunModel, call: Call) -> Answered:
    """A call without a result begins, or the run ends because its code has changed."""
    try:
        _check(run.history, call)
    except HistoryDiverged as error:
        run.worker.world.diverges(run.lease, call.id, error)
        yield from run.end("review", describe(error, str), diverged=error.recorded)
        return False
    return True


def _check(history: History, call: Call) -> None:
    with suppress(InterruptedError):
        at_once(history.check(call))
        return
    asyncio.run(history.check(call))


def wait(run: RunModel) -> Answered:
    """Wait for an answer, behind the one that the wait before got."""
    call = run.history.call("event", kind="event", is_value=True)
    left = run.history.found(call)
    if left is not None:
        return (yield from _given(run, left))
    if (yield from may_begin(run, call)):
        yield from run.park(_answer(run, call))
    return False


def race(run: RunModel, seconds: str) -> Answered:
    """Wait for an answer or a time, whichever comes first."""
    calls = [run.history.call(kind, kind=kind, is_value=True) for kind in ("event", "time")]
    for left in map(run.history.found, calls):
        if left is not None:
            return (yield from _given(run, left))
    for call in calls:
        if not (yield from may_begin(run, call)):
            return False
    event, time = calls
    span = int(seconds) * 1000
    yield from run.park(_answer(run, event), replace(_plain(time), timeout_ms=span))
    return False


def sleep(run: RunModel, seconds: int) -> Answered:
    """`Context.sleep`."""
    call = run.history.call("sleep", kind="time", is_value=True)
    left = run.history.found(call)
    if left is not None:
        return (yield from _given(run, left))
    if (yield from may_begin(run, call)):
        yield from run.park(replace(_plain(call), timeout_ms=seconds * 1000))
    return False


def _given(run: RunModel, left: StepResult) -> Answered:
    if left.raises is not None:
        yield from run.end("failed", f"{left.raises}: {left.message}")
    return left.raises is None


def _plain(call: Call) -> Wait:
    return Wait(call.id, call.kind, call.position, call.digest, call.failed_before)  # type: ignore[arg-type]


def _answer(run: RunModel, call: Call) -> Wait:
    given = {"source": SOURCE, "event_type": ANSWER, "subject": subject_of(run.lease)}
    asked = replace(_plain(call), match=match_of(given).text(), since="job")
    before = next((left for left in run.lease.steps if left.id == "event"), None)
    if call.id != "event#2" or before is None:
        return asked
    taken = orjson.loads(before.value or "")
    event_id, since = taken["event"]["event_id"], str(taken["at"])
    return replace(asked, behind=taken["number"], after_event=event_id, since=since)

"""The spans of a run, and the trace that a handler and its tools are given."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
import structlog
from opentelemetry import trace
from opentelemetry.trace import StatusCode
from support.recorded_spans import (
    SAMPLED,
    UNSAMPLED,
    context,
    parent_id,
    recording,
    traceparent,
)
from support.step_results import left
from support.worker_bench import Bench, bench

from streams import App, Context, PermanentError, TransientError
from streams.serde.headers import is_traceparent
from streams.serde.records import Claim, Ended, Outcome
from streams.telemetry import _name_span
from streams.testing import Bench as ApplicationBench
from streams.testing import Call

RUN = "process link"


async def ended_of(handler: Any, **lease: Any) -> Ended:
    app = App("test")
    app.job("job")(handler)
    async with bench(app) as at:
        ended = await at.ended(at.give(**{"traceparent": SAMPLED, **lease}))
        await at.idle()
        return ended


async def test_a_run_has_its_steps_and_effects_below_it() -> None:
    got: dict[str, str | None] = {}

    async def handler(ctx: Context) -> None:
        got["handler"] = ctx.traceparent
        await ctx.step("draft", draft, ctx)
        await ctx.effect("mail", mail, key="k", to="ann@example.com")

    async def draft(ctx: Context) -> None:
        got["step"] = ctx.traceparent

    def mail(to: str, idempotency_key: str, traceparent: str) -> None:
        got["tool"] = traceparent
        got["in its thread"] = str(trace.get_current_span().get_span_context().span_id)

    with recording() as found:
        assert (await ended_of(handler)).status == "succeeded"
    run, step, effect = found.only(RUN), found.only("step draft"), found.only("effect mail")
    claim, call = found.only("claim mail"), found.only("call mail")
    assert parent_id(run) == int("b" * 16, 16)
    assert parent_id(step) == parent_id(effect) == context(run).span_id
    assert parent_id(claim) == parent_id(call) == context(effect).span_id
    assert got == {
        "handler": traceparent(run),
        "step": traceparent(step),
        "tool": traceparent(call),
        "in its thread": str(context(call).span_id),
    }
    assert (run.attributes or {})["messaging.system"] == "tidegate"
    assert (run.attributes or {})["tidegate.outcome"] == "succeeded"
    assert (effect.attributes or {})["tidegate.outcome"] == "done"
    assert (claim.attributes or {})["tidegate.ledger.answer"] == "granted"
    assert "ann@example.com" not in found.text()


async def test_a_kept_step_has_no_span() -> None:
    async def handler(ctx: Context) -> None:
        await ctx.step("draft", print)

    with recording() as found:
        await ended_of(handler, steps=left({"draft": "1"}))
    assert found.names == [RUN]


@pytest.mark.parametrize(
    ("error", "status", "type_"),
    [
        (TransientError("s3cret"), "retry", "TransientError"),
        (PermanentError("s3cret"), "failed", "PermanentError"),
        (KeyError("s3cret"), "retry", "KeyError"),
    ],
)
async def test_a_failed_run_shows_the_type_of_its_error(
    error: Exception, status: str, type_: str
) -> None:
    async def handler(ctx: Context) -> None:
        raise error

    with recording() as found:
        assert (await ended_of(handler)).status == status
    run = found.only(RUN)
    assert run.status.status_code is StatusCode.ERROR
    assert ((run.attributes or {})["error.type"], "s3cret" in found.text()) == (type_, False)


async def test_a_failed_call_shows_in_the_effect_whose_outcome_nobody_knows() -> None:
    async def handler(ctx: Context) -> None:
        await ctx.effect("mail", mail, key="k")

    async def mail(idempotency_key: str) -> None:
        raise TimeoutError

    with recording() as found:
        await ended_of(handler)
    assert (found.only("effect mail").attributes or {})["tidegate.outcome"] == "unknown"
    assert (found.only("call mail").attributes or {})["error.type"] == "TimeoutError"


@pytest.mark.parametrize("carrying", [None, UNSAMPLED, "no trace"])
async def test_a_run_whose_trace_is_not_sampled_costs_no_span(carrying: str | None) -> None:
    got: list[str | None] = []

    async def handler(ctx: Context) -> None:
        got.append(ctx.traceparent)
        await ctx.effect("mail", mail, key="k")

    async def mail(idempotency_key: str, *, traceparent: str | None) -> None:
        got.append(traceparent)

    with recording() as found:
        assert (await ended_of(handler, traceparent=carrying)).status == "succeeded"
    assert (found.all, got) == ([], [carrying, carrying])


async def test_runs_at_the_same_time_do_not_mix() -> None:
    inside = asyncio.Barrier(2)

    async def handler(ctx: Context) -> None:
        await inside.wait()
        await ctx.step("draft", inside.wait)

    app = App("test")
    app.job("job")(handler)
    with recording() as found:
        async with bench(app) as at:
            leases = [at.give(traceparent=SAMPLED.replace("a", c)) for c in "cd"]
            for lease in leases:
                await at.ended(lease)
            await at.idle()
    runs = {context(run).span_id: run for run in found.named(RUN)}
    steps = found.named("step draft")
    assert {context(runs[parent_id(step)]).trace_id for step in steps} == {
        int("c" * 32, 16),
        int("d" * 32, 16),
    }


async def test_log_lines_name_the_span_in_which_they_are_written() -> None:
    lines: list[dict[str, Any]] = []

    async def handler(ctx: Context) -> None:
        lines.append(dict(_name_span(None, "info", {"event": "in the handler"})))

    with recording() as found:
        await ended_of(handler)
        await ended_of(handler, traceparent=UNSAMPLED)
    run = context(found.only(RUN))
    ids = {"trace_id": f"{run.trace_id:032x}", "span_id": f"{run.span_id:016x}"}
    assert lines == [{"event": "in the handler", **ids}, {"event": "in the handler"}]
    assert structlog.contextvars.get_contextvars() == {}


async def test_a_handler_may_give_the_trace_itself() -> None:
    got: list[str] = []

    async def handler(ctx: Context) -> None:
        await ctx.effect("mail", mail, key="k", traceparent="mine")
        await ctx.effect("mail", partial(mail, traceparent="mine"), key="l")

    async def mail(idempotency_key: str, traceparent: str) -> None:
        got.append(traceparent)

    await ended_of(handler)
    assert got == ["mine", "mine"]


async def test_the_trace_is_no_argument_of_the_effect() -> None:
    """A later run has another span: its claim must not count as one with other arguments."""

    async def handler(ctx: Context) -> None:
        await ctx.effect("mail", mail, key="k")

    async def mail(idempotency_key: str, traceparent: str | None = None) -> None: ...

    def claims(at: Bench) -> list[bytes]:
        return [claim.digest for claim in at.bodies(Claim)]

    app = App("test")
    app.job("job")(handler)
    with recording():
        async with bench(app) as at:
            for lease in (at.give(traceparent=SAMPLED), at.give(traceparent=UNSAMPLED)):
                await at.ended(lease)
            assert len(set(claims(at))) == 1
            assert [outcome.status for outcome in at.bodies(Outcome)] == ["done", "done"]


def test_the_applications_bench_shows_the_handlers_own_arguments() -> None:
    app = App("test")

    @app.job("job")
    async def handler(ctx: Context) -> str:
        sent: str = await ctx.effect("mail", mail, key="k", to="ann")
        return sent

    async def mail(to: str, idempotency_key: str, traceparent: str) -> str:
        return traceparent

    with ApplicationBench(app) as at:
        assert is_traceparent(at.submit("job").run().result)
        assert at.calls == [Call("mail", "k", {"to": "ann"})]

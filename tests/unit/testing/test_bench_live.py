"""What handlers say while they run, through the product's worker: text, lines, heartbeats."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from support.bench_apps import app_of

from streams import Context, PermanentError, TransientError
from streams.errors import LeaseLost
from streams.testing import Bench, LogLine, crash_points


async def draft(ctx: Context, words: str) -> str:
    for word in words.split():
        ctx.stream(word + " ")
        await asyncio.sleep(0.02)
    return words


def test_a_step_and_the_handler_stream_by_themselves() -> None:
    async def handler(ctx: Context) -> str:
        ctx.stream("begin; ")
        text = await ctx.step("draft", draft, ctx, "one two three")
        ctx.stream("end")
        return str(text)

    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").run()
        assert job.status == "succeeded"
        assert job.streamed == {"": "begin; end", "draft": "one two three "}


def test_a_function_in_a_thread_streams_into_its_step() -> None:
    async def handler(ctx: Context) -> None:
        def said() -> None:
            for n in range(100):
                ctx.stream(f"{n},")

        await ctx.step("thread", said)
        await ctx.effect("mail:send", lambda idempotency_key: ctx.stream("sent"), key="one")

    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").run()
        assert job.status == "succeeded", job.error
        whole = "".join(f"{n}," for n in range(100))
        assert job.streamed == {"thread": whole, "mail:send%2Fone": "sent"}


def test_what_a_step_said_is_there_before_its_value_is() -> None:
    async def handler(ctx: Context) -> None:
        await ctx.step("draft", draft, ctx, "one two")

    for crash in crash_points():
        with Bench(app_of(handler), crash=crash) as bench:
            job = bench.submit("job").run()
            assert job.streamed == {"draft": "one two "}


def test_a_second_attempt_begins_its_text_anew_and_keeps_that_of_kept_steps() -> None:
    async def handler(ctx: Context) -> None:
        await ctx.step("kept", draft, ctx, f"kept {ctx.attempt}")
        ctx.stream(f"attempt {ctx.attempt}")
        if ctx.attempt == 1:
            raise TransientError("busy")

    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").run()
        assert job.streamed == {"kept": "kept 1 ", "": "attempt 2"}


def test_a_step_and_an_effect_that_a_run_does_again_begin_their_text_anew() -> None:
    async def handler(ctx: Context) -> None:
        tries = [0, 0]

        async def work(which: int, idempotency_key: str = "") -> None:
            tries[which] += 1
            await draft(ctx, f"try {tries[which]}")
            if tries[which] == 1:
                raise TransientError("busy")

        for _ in range(2):
            with suppress(TransientError):
                await ctx.step("draft", work, 0, key="a")
        for _ in range(2):
            with suppress(TransientError):
                await ctx.effect("mail:send", partial(work, 1), key="one")

    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").run()
        assert job.status == "succeeded", job.error
        assert job.streamed == {"draft[a]": "try 2 ", "mail:send%2Fone": "try 2 "}


def test_log_lines_are_bound_to_the_run_and_shown_with_the_job() -> None:
    async def handler(ctx: Context) -> None:
        ctx.log.info("begins", order="o-1")
        try:
            raise ValueError("odd")
        except ValueError:
            ctx.log.exception("went wrong")
        ctx.log.bind(part=2).warning("half", left=object())

    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").run()
        assert (
            job.log
            == [
                LogLine("info", "begins"),
                LogLine("error", "went wrong"),
                LogLine("warning", "half"),
            ]
            or job.log[1].level == "error"
        )
        assert job.log[0].fields == {"order": "o-1"}
        assert job.log[1].fields == {"error": "ValueError: odd"}
        assert job.log[2].fields["part"] == 2


def test_the_next_attempt_has_the_newest_details() -> None:
    async def handler(ctx: Context) -> Any:
        before = ctx.heartbeat_details
        for row in range(3):
            ctx.heartbeat({"row": row, "attempt": ctx.attempt})
        assert ctx.heartbeat_details == before
        if ctx.attempt < 3:
            raise TransientError("busy")
        return before

    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").run()
        assert job.result == {"row": 2, "attempt": 2}
        assert job.heartbeat == {"row": 2, "attempt": 3}
        assert job.steps == {}


def test_details_are_sent_once_a_second_and_survive_a_crash() -> None:
    async def handler(ctx: Context) -> Any:
        if ctx.heartbeat_details is not None:
            return ctx.heartbeat_details
        for row in range(1_000):
            ctx.heartbeat(row)
            await asyncio.sleep(0.01)
        return await ctx.step("stand", asyncio.sleep, 0)

    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").crash_in(step="stand")
        sent = job.heartbeat
        assert sent >= 890
        changelog = bench._behind.pipeline.output("dispatcher.checkpoints.changelog")
        assert len(changelog) <= 12
        assert job.run().result == sent


def test_a_heartbeat_is_no_evidence_of_changed_code() -> None:
    async def before(ctx: Context) -> None:
        ctx.heartbeat(1)
        await ctx.step("one", str, 1)
        raise TransientError("busy")

    async def after(ctx: Context) -> Any:
        return [await ctx.step("one", str, 1), await ctx.step("two", str, 2)]

    with Bench(app_of(before)) as bench:
        job = bench.submit("job").run(runs=1)
        bench.deploy(app_of(after))
        assert job.run().result == ["1", "2"]


@pytest.mark.parametrize("details", [object(), float("nan"), "\ud800", "x" * 8_192, 2**70, {1: 2}])
def test_details_that_cannot_be_kept_fail_the_job(details: Any) -> None:
    async def handler(ctx: Context) -> None:
        ctx.heartbeat(details)

    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").run()
        assert job.status == "failed"
        assert "the details of a heartbeat" in (job.error or "")


def test_text_that_is_no_text_fails_the_job_and_a_lone_surrogate_is_replaced() -> None:
    async def handler(ctx: Context) -> None:
        ctx.stream("a\ud800b")
        ctx.stream("")
        with pytest.raises(PermanentError):
            ctx.stream(b"bytes")  # type: ignore[arg-type]
        ctx.stream(7)  # type: ignore[arg-type]

    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").run()
        assert (job.status, job.streamed) == ("failed", {"": "a?b"})


def test_a_cancelled_run_knows_it_and_says_no_more() -> None:
    seen: list[Any] = []

    async def handler(ctx: Context) -> None:
        seen.append(ctx.cancelled)
        try:
            await ctx.step("stand", asyncio.sleep, 0)
        finally:
            seen.append(ctx.cancelled)
            try:
                ctx.stream("too late")
            except LeaseLost as error:
                seen.append(type(error))

    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").pause_in(step="stand").cancel().run()
        assert job.status == "cancelled"
        assert seen == [False, True, LeaseLost]
        assert job.streamed == {}

"""A handler that is a plain function: it runs in a thread, and its calls block."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import Any

import orjson
import pytest
from support.conditions import eventually
from support.worker_bench import bench

from streams import App, BlockingContext, Context, PermanentError
from streams.errors import LeaseLost
from streams.serde.records import Claim, Ended


def app_of(function: Any) -> App:
    app = App("test")
    app.job("job")(function)
    return app


async def ended(function: Any, **given: Any) -> Ended:
    async with bench(app_of(function)) as at:
        return await at.ended(at.give(**given))


async def test_it_blocks_no_other_run() -> None:
    met = threading.Barrier(2, timeout=60)

    def handler(ctx: BlockingContext[Any]) -> None:
        met.wait()

    async with bench(app_of(handler)) as at:
        leases = [at.give() for _ in range(2)]
        assert [(await at.ended(lease)).status for lease in leases] == ["succeeded"] * 2


async def test_its_calls_return_what_those_of_an_async_handler_give() -> None:
    def handler(ctx: BlockingContext[Any]) -> Any:
        made = ctx.step("made", lambda a, b: a + b, 1, 2)
        ctx.progress({"made": made})
        ctx.log("made", value=made)
        sent = ctx.effect("email:send", send, key="once", to="a@example.com")
        return [made, sent, ctx.cancelled, ctx.input, ctx.tenant_id, ctx.attempt]

    async with bench(app_of(handler)) as at:
        end = await at.ended(at.give())
        assert orjson.loads(end.result or "") == [
            3,
            {"to": "a@example.com"},
            False,
            {"n": 1},
            "acme",
            1,
        ]
        assert len(at.bodies(Claim)) == 1


def send(to: str, idempotency_key: str) -> dict[str, str]:
    return {"to": to}


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (ValueError("wrong"), "retry", "ValueError: wrong"),
        (PermanentError("never"), "failed", "PermanentError: never"),
        (SystemExit("no more"), "retry", "SystemExit: no more"),
        (KeyboardInterrupt(), "retry", "KeyboardInterrupt"),
        (asyncio.CancelledError(), "retry", "CancelledError"),
    ],
)
async def test_what_it_raises_ends_the_run(error: BaseException, status: str, told: str) -> None:
    def handler(ctx: BlockingContext[Any]) -> None:
        raise error

    end = await ended(handler)
    assert end.status == status
    assert told in (end.error or "")


async def test_a_call_in_an_async_function_of_a_step_is_refused_and_holds_up_no_other_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would wait, in the thread of the event loop, for what that loop does next."""
    waits = concurrent.futures.Future.result
    monkeypatch.setattr(concurrent.futures.Future, "result", lambda its: waits(its, timeout=5))

    def handler(ctx: BlockingContext[Any]) -> None:
        async def saves() -> None:
            ctx.progress(1)

        ctx.step("saved", saves)

    end = await ended(handler)
    assert end.status == "retry"
    assert "ctx.progress blocks" in (end.error or "")


async def test_it_parks_in_a_wait() -> None:
    ends: list[str] = []

    def handler(ctx: BlockingContext[Any]) -> None:
        try:
            ctx.sleep(3_600)
        finally:
            ends.append("unwound")

    end = await ended(handler)
    assert (end.status, ends) == ("parked", ["unwound"])


async def test_after_its_time_its_calls_raise_and_its_slot_is_taken_until_it_ends() -> None:
    go_on, said = threading.Event(), []

    def handler(ctx: BlockingContext[Any]) -> None:
        assert go_on.wait(60)
        try:
            ctx.step("late", lambda: said.append("late"))
        except LeaseLost:
            said.append("over")

    async with bench(app_of(handler), slots=1) as at:
        lease = at.give(timeout_seconds=0.1)
        assert (await at.ended(lease)).status == "retry"
        assert at.worker.held_leases.free() == 0
        go_on.set()
        await asyncio.to_thread(eventually, at.worker.held_leases.free, what="a free slot")
        assert said == ["over"]


async def test_a_loop_that_looks_whether_the_run_is_over_ends_in_its_own_way() -> None:
    """An error instead would be taken for one of the work, which is then done again for ever."""
    begun, said = threading.Event(), list[str]()

    def handler(ctx: BlockingContext[Any]) -> None:
        while len(said) < 3:
            try:
                begun.set()
                if ctx.cancelled:
                    break
            except Exception as error:
                said.append(str(error))
        said.append("cleaned up")

    async with bench(app_of(handler)) as at:
        lease = at.give()
        await asyncio.to_thread(begun.wait, 60)
        at.reply(lease, "cancel", message="no longer needed")
        assert (await at.ended(lease)).status == "cancelled"
        await asyncio.to_thread(eventually, lambda: "cleaned up" in said, what="its end")
    assert said == ["cleaned up"]


async def test_a_call_that_waits_is_ended_with_the_run() -> None:
    begun, said = threading.Event(), []

    async def never() -> None:
        begun.set()
        await asyncio.Event().wait()

    def handler(ctx: BlockingContext[Any]) -> None:
        try:
            ctx.step("never", never)
        except LeaseLost:
            said.append("over")

    async with bench(app_of(handler)) as at:
        lease = at.give()
        await asyncio.to_thread(begun.wait, 60)
        at.reply(lease, "cancel", message="no longer needed")
        assert (await at.ended(lease)).status == "cancelled"
        await at.idle()
    assert said == ["over"]


def test_a_bench_runs_plain_functions_with_fakes_and_waits() -> None:
    from streams.testing import Bench

    app = App("test")

    @app.job("plain")
    def plain(ctx: BlockingContext[Any]) -> Any:
        ctx.sleep(3_600)
        made = ctx.step("made", lambda: 1)
        sent = ctx.effect("email:send", send, key="k", to="a")
        return [made, sent, ctx.enqueue("other", None, wait=True)]

    @app.job("other")
    async def other(ctx: Context) -> str:
        return "other"

    with Bench(app) as bench_:
        job = bench_.submit("plain", None).run()
        assert job.status == "waiting"
        bench_.advance(3_600)
        assert job.run().result == [1, {"to": "a"}, "other"]

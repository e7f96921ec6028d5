"""How runs end, and what the dispatcher is told."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import orjson
import pytest
from support.worker_bench import Clock, bench

from streams import App, Context, PermanentError, RetryAfter, TransientError
from streams.errors import LeaseLost
from streams.serde.link.messages import Progress
from streams.serde.records import Ended
from streams.topology.model import LeasePolicy
from streams.worker.handler import execution

# Its terms are on a `Clock`; in real time it only makes the rounds of a run's watch short.
BRIEF = LeasePolicy(term_seconds=0.03, margin_seconds=0.01)


def app_of(function: Any, **options: Any) -> App:
    app = App("test")
    app.job("job", **options)(function)
    return app


async def run_once(function: Any, **lease: Any) -> Ended:
    async with bench(app_of(function)) as at:
        return await at.ended(at.give(**lease))


async def test_a_result_is_sent_as_json_to_the_partition_of_its_lease() -> None:
    async def handler(ctx: Context) -> dict[str, Any]:
        return {"tenant": ctx.tenant_id, "input": ctx.input, "attempt": ctx.attempt}

    async with bench(app_of(handler), slots=8) as at:
        lease = at.give(home_partition=1, epoch=7)
        ended = await at.ended(lease)
        partition, command = at.commands()[-1]
        assert at.owner.limit == 9
    assert orjson.loads(ended.result or "") == {"tenant": "acme", "input": {"n": 1}, "attempt": 1}
    assert ended.status == "succeeded"
    assert ended.run_id == lease.run_id
    assert (partition, command.epoch, command.tenant_id) == (1, 7, "acme")


@pytest.mark.parametrize(
    ("error", "status", "text", "after"),
    [
        (TransientError("busy"), "retry", "TransientError: busy", None),
        (RetryAfter(7), "retry", "RetryAfter: retry after 7 s", 7),
        (ValueError("odd"), "retry", "ValueError: odd", None),
        (TimeoutError("slow"), "retry", "TimeoutError: slow", None),
        (SystemExit(3), "retry", "SystemExit: 3", None),
        (PermanentError("never"), "failed", "PermanentError: never", None),
        (
            ExceptionGroup("g", [ValueError("odd"), PermanentError("never")]),
            "failed",
            "PermanentError: never",
            None,
        ),
        (asyncio.CancelledError(), "retry", "CancelledError: the handler cancelled itself", None),
    ],
)
async def test_an_error_decides_how_the_run_ends(
    error: BaseException, status: str, text: str, after: float | None
) -> None:
    async def handler(ctx: Context) -> None:
        raise error

    ended = await run_once(handler)
    assert (ended.status, ended.error, ended.retry_after_seconds) == (status, text, after)


@pytest.mark.parametrize(
    ("result", "named"), [({1, 2}, "set"), (object(), "object"), ("x" * 300_000, "300,002 bytes")]
)
async def test_a_result_that_cannot_be_kept_fails_and_is_named(result: Any, named: str) -> None:
    async def handler(ctx: Context) -> Any:
        return result

    ended = await run_once(handler)
    assert ended.status == "failed"
    assert named in (ended.error or "")


@pytest.mark.parametrize("kind", [KeyError, PermanentError, TransientError])
async def test_the_dispatcher_is_told_the_line_that_raised(kind: type[Exception]) -> None:
    async def handler(ctx: Context) -> None:
        raise kind("customer")

    told = (await run_once(handler)).traceback or ""
    assert told.startswith("Traceback (most recent call last):")
    assert 'raise kind("customer")' in told
    assert "/handler/execution.py" not in told, "only the handler's own frames are told"


async def test_of_a_long_traceback_its_end_is_told() -> None:
    async def handler(ctx: Context) -> None:
        raise ValueError("x" * 9_000 + "the end \ud83d")

    told = (await run_once(handler)).traceback or ""
    assert told.startswith("[...]")
    assert told.endswith("the end \\ud83d"), "a lone surrogate is escaped"
    assert len(told) < 4_100


async def test_a_run_without_an_error_of_the_handler_tells_no_traceback() -> None:
    async def handler(ctx: Context) -> object:
        return object()

    assert (await run_once(handler)).traceback is None


async def test_a_handler_past_its_timeout_is_retried_and_tells_where_it_stood() -> None:
    async def handler(ctx: Context) -> None:
        await asyncio.Event().wait()

    ended = await run_once(handler, timeout_seconds=0.05)
    assert (ended.status, ended.error) == ("retry", "TimeoutError: ran past its 0.05 s")
    assert "await asyncio.Event().wait()" in (ended.traceback or "")


async def test_a_timeout_counts_from_the_lease_though_the_loop_was_blocked_then() -> None:
    """Heartbeats list the lease until then: afterwards it would count as lost with its worker."""
    clock = Clock()

    async def handler(ctx: Context) -> None:
        clock.now += 2
        await asyncio.Event().wait()

    async with bench(app_of(handler), clock=clock) as at:
        lease = at.give(timeout_seconds=10)
        clock.now += 9  # before the run has its first turn
        ended = await at.ended(lease)
    assert (ended.status, ended.error) == ("retry", "TimeoutError: ran past its 10 s")


async def test_a_handler_that_ignores_its_timeout_keeps_its_slot_and_may_do_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execution.Execution.__init__, "__defaults__", (0.05,))
    release, refused = asyncio.Event(), asyncio.Event()

    async def handler(ctx: Context) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        with pytest.raises(LeaseLost):
            await ctx.step("late", lambda: 1)
        refused.set()

    async with bench(app_of(handler), slots=2) as at:
        ended = await at.ended(at.give(timeout_seconds=0.05))
        assert (ended.status, at.worker.held_leases.free()) == ("retry", 1)
        release.set()
        await asyncio.wait_for(refused.wait(), 5)
        assert at.worker.held_leases.free() == 2


async def test_a_cancel_ends_the_handler() -> None:
    begun = asyncio.Event()

    async def handler(ctx: Context) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with bench(app_of(handler)) as at:
        lease = at.give()
        await begun.wait()
        at.reply(lease, "cancel", message="no longer needed")
        ended = await at.ended(lease)
    assert (ended.status, ended.error) == ("cancelled", "no longer needed")


async def test_a_lease_that_cannot_be_executed_frees_its_slot() -> None:
    async def handler(ctx: Context) -> None: ...

    async with bench(app_of(handler), slots=1) as at:
        ended = await at.ended(at.give(input="{no json"))
        assert (ended.status, at.worker.held_leases.free()) == ("retry", 1)
        assert "JSONDecodeError" in (ended.error or "")


@pytest.mark.parametrize("moved", [{"epoch": 2}, {"job_id": "job_x"}])
async def test_a_reply_for_another_lease_changes_nothing(moved: dict[str, Any]) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handler(ctx: Context) -> None:
        begun.set()
        await go_on.wait()

    async with bench(app_of(handler)) as at:
        lease = at.give()
        await begun.wait()
        at.reply(replace(lease, **moved), "cancel")
        at.reply(lease, "cancel", run_id="the run of a job that was purged")
        asyncio.get_running_loop().call_soon(go_on.set)
        assert (await at.ended(lease)).status == "succeeded"


async def test_a_preflight_that_says_no_cancels_before_the_handler() -> None:
    ran = []

    async def handler(ctx: Context) -> None:
        ran.append(ctx)

    async def wanted(ctx: Context) -> bool:
        return False

    app = app_of(handler)
    app.preflight("job")(wanted)
    async with bench(app) as at:
        ended = await at.ended(at.give())
    assert (ended.status, ended.error) == ("cancelled", "preflight: no longer wanted")
    assert not ran


async def test_a_preflight_that_forgets_to_return_cancels_no_job() -> None:
    async def handler(ctx: Context) -> None: ...

    async def forgets(ctx: Context) -> bool:  # type: ignore[empty-body]
        ...

    app = app_of(handler)
    app.preflight("job")(forgets)
    async with bench(app) as at:
        ended = await at.ended(at.give())
    told = "PermanentError: the preflight returned None: return True or False"
    assert (ended.status, ended.error) == ("failed", told)


async def test_a_lease_that_is_not_renewed_is_lost_without_a_word() -> None:
    seen: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    clock = Clock()

    async def handler(ctx: Context) -> None:
        try:
            clock.now += BRIEF.term_seconds
            await asyncio.Event().wait()
        finally:
            try:
                await ctx.step("late", lambda: 1)
            except LeaseLost:
                seen.set_result("LeaseLost")

    async with bench(app_of(handler), leases=BRIEF, slots=1, clock=clock) as at:
        at.give()
        assert at.worker.held_leases.free() == 0
        assert await asyncio.wait_for(seen, 5) == "LeaseLost"
        await at.idle()
        assert not at.bodies(Ended)


async def test_acknowledged_heartbeats_carry_a_run_past_its_first_term() -> None:
    clock = Clock()

    async def handler(ctx: Context) -> int:
        for _ in range(9):  # three terms
            clock.now += BRIEF.term_seconds / 3
            at.worker.link.beat()
            await clock.looked_at()
        return 1

    async with bench(app_of(handler), leases=BRIEF, clock=clock) as at:
        assert (await at.ended(at.give())).status == "succeeded"


async def test_heartbeats_that_fail_carry_nothing() -> None:
    clock, lost = Clock(), asyncio.Event()

    async def handler(ctx: Context) -> None:
        try:
            while True:
                clock.now += BRIEF.term_seconds / 3
                at.silent = True
                at.worker.link.beat()
                await clock.looked_at()
        finally:
            lost.set()

    async with bench(app_of(handler), leases=BRIEF, clock=clock) as at:
        at.give()
        await asyncio.wait_for(lost.wait(), 5)
        await at.idle()
        assert not at.bodies(Ended)


async def test_draining_waits_for_the_quick_and_releases_the_rest() -> None:
    begun, draining = asyncio.Barrier(3), asyncio.Event()

    async def quick(ctx: Context) -> None:
        await begun.wait()
        await draining.wait()

    async def slow(ctx: Context) -> None:
        await begun.wait()
        await asyncio.Event().wait()

    app = app_of(slow)
    app.job("quick")(quick)
    async with bench(app) as at:
        lasting, brief = at.give(), at.give("quick")
        await begun.wait()
        asyncio.get_running_loop().call_soon(draining.set)
        await at.worker.drain(1)
        assert (await at.ended(brief)).status == "succeeded"
        assert (await at.ended(lasting)).status == "released"
        assert (await at.declined(at.give())).detail == "the worker shuts down"


async def test_progress_is_published_by_the_owner_of_the_job() -> None:
    async def handler(ctx: Context) -> None:
        await ctx.progress({"pct": 50})
        await ctx.progress(object())

    async with bench(app_of(handler)) as at:
        lease = at.give()
        ended = await at.ended(lease)
        (sent,) = at.owner.of(Progress)
    assert (sent.job_id, sent.epoch) == (lease.job_id, lease.epoch)
    assert (sent.run_id, sent.value) == (lease.run_id, '{"pct":50}')
    assert ended.status == "failed"
    assert "progress is not JSON" in (ended.error or "")


async def test_a_handler_does_not_begin_after_its_lease() -> None:
    """The process may have been suspended between reading the lease and beginning the run."""
    begun, clock = list[str](), Clock()
    app = App("test")

    @app.job("job")
    async def handler(ctx: Context) -> None:
        begun.append(ctx.job_id)

    async with bench(app, clock=clock) as at:
        at.give()
        clock.now += at.leases.term_seconds
        at.worker.link.beat()
        later = at.give()
        await at.ended(later)
        await at.idle()
    assert begun == [later.job_id]

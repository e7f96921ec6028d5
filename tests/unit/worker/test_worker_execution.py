"""How runs end, and what the dispatcher is told."""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import orjson
import pytest
import structlog
import uvloop
from support.worker_bench import Bench, Clock, bench, data_key, payload_ref

from streams import App, Context, PermanentError, RetryAfter, TransientError
from streams.errors import LeaseLost
from streams.serde.codec import PROGRESS, TENANT
from streams.serde.ids import partition_for
from streams.serde.keys import tenant_key
from streams.serde.records import Claim, Ended, EventInfo, PayloadRef, TenantRecord
from streams.serde.sizes import CHUNK_BYTES
from streams.topology.model import LeasePolicy
from streams.vault.data_key import DataKey, new_key_record
from streams.worker.handler import execution
from streams.worker.run import run_to_its_end

EVENT = EventInfo("evt_1", "zendesk", "ticket.created", None, None, 1, "text/plain", None, None,
                  "k", {})  # fmt: skip
# Its terms are on a `Clock`; in real time it only makes the rounds of a run's watch short.
BRIEF = LeasePolicy(term_seconds=0.03, margin_seconds=0.01)


def app_of(function: Any, **options: Any) -> App:
    app = App("test")
    app.job("job", **options)(function)
    return app


async def run_once(function: Any, **lease: Any) -> Ended:
    async with bench(app_of(function)) as at:
        return await at.ended(at.give(**lease))


async def test_a_result_is_sent_as_json_with_the_credits_of_its_partition() -> None:
    async def handler(ctx: Context) -> dict[str, Any]:
        return {"tenant": ctx.tenant_id, "input": ctx.input, "attempt": ctx.attempt}

    async with bench(app_of(handler), slots=8) as at:
        lease = at.give(home_partition=1, epoch=7)
        ended = await at.ended(lease)
        partition, command = at.commands()[-1]
    assert orjson.loads(ended.result or "") == {"tenant": "acme", "input": {"n": 1}, "attempt": 1}
    assert (ended.status, ended.free, ended.received) == ("succeeded", 2, 1)
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
            "failed", "PermanentError: never", None,
        ),
        (asyncio.CancelledError(), "retry", "CancelledError: the handler cancelled itself", None),
    ],
)  # fmt: skip
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


async def test_a_handler_past_its_timeout_is_retried() -> None:
    async def handler(ctx: Context) -> None:
        await asyncio.Event().wait()

    ended = await run_once(handler, timeout_seconds=0.05)
    assert (ended.status, ended.error) == ("retry", "TimeoutError: ran past its 0.05 s")


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
        assert (ended.status, ended.free, at.worker.held_leases.free()) == ("retry", 0, 1)
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
        assert (ended.status, ended.free) == ("retry", 1)
        assert "JSONDecodeError" in (ended.error or "")


@pytest.mark.parametrize("moved", [{"epoch": 2}, {"job_id": "job_x"}])
async def test_a_reply_for_another_lease_changes_nothing(moved: dict[str, Any]) -> None:
    from dataclasses import replace

    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handler(ctx: Context) -> None:
        begun.set()
        await go_on.wait()

    async with bench(app_of(handler)) as at:
        lease = at.give()
        await begun.wait()
        at.reply(replace(lease, **moved), "cancel")
        at.reply(replace(lease, worker_id="w9/other"), "cancel")
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
            at.worker.heartbeater.beat()
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
                at.transport.failures = 4
                at.worker.heartbeater.beat()
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
        assert (await at.declined(at.give())).reason == "draining"


async def test_progress_is_published_under_the_job_and_its_tenants_partition() -> None:
    async def handler(ctx: Context) -> None:
        await ctx.progress({"pct": 50})
        await ctx.progress(object())

    async with bench(app_of(handler)) as at:
        lease = at.give()
        ended = await at.ended(lease)
        (sent,) = (s for s in at.transport.sent if s.topic == "jobs.progress")
    record = PROGRESS.decode(sent.value)
    assert (record.job_id, record.run_id, record.value) == (
        lease.job_id,
        lease.run_id,
        '{"pct":50}',
    )
    assert (sent.key, sent.partition) == (lease.job_id.encode(), partition_for("acme", 4))
    assert ended.status == "failed"
    assert "progress is not JSON" in (ended.error or "")


async def read_payload(at: Bench, **lease: Any) -> Ended:
    return await at.ended(at.give(**lease))


async def echo(ctx: Context) -> str:
    return (await ctx.payload()).decode()


async def test_the_payload_is_the_body_of_every_chunk() -> None:
    async with bench(app_of(echo)) as at:
        ref = payload_ref(at, "acme", "evt_1", b"hello ", b"world")
        ended = await read_payload(at, event=EVENT, payload_ref=ref)
    assert ended.result == '"hello world"'


async def test_a_large_payload_is_opened_while_threads_of_handlers_hang() -> None:
    """They would keep the bodies of every tenant closed for as long as the process lives."""
    let_go, body = threading.Event(), b"x" * (CHUNK_BYTES + 1)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    hanging = asyncio.create_task(asyncio.to_thread(let_go.wait, 20))

    async def length(ctx: Context) -> int:
        return len(await ctx.payload())

    try:
        async with bench(app_of(length)) as at:
            ref = payload_ref(at, "acme", "evt_1", body[:CHUNK_BYTES], body[CHUNK_BYTES:])
            ended = await read_payload(at, event=EVENT, payload_ref=ref)
    finally:
        let_go.set()
        await hanging
    assert ended.result == str(len(body))


async def test_another_tenants_payload_does_not_open() -> None:
    async with bench(app_of(echo)) as at:
        ref = payload_ref(at, "rival", "evt_1", b"secret")
        own = data_key(at.book, at.vault, "acme")
        ended = await read_payload(at, event=EVENT, payload_ref=replace(ref, key_id=own.key_id))
    assert ended.status == "failed"
    assert "cannot open" in (ended.error or "")


async def test_a_payload_that_is_not_there_fails_the_job() -> None:
    async with bench(app_of(echo)) as at:
        key = data_key(at.book, at.vault, "acme")
        none = await read_payload(at)
        gone = await read_payload(at, event=EVENT, payload_ref=PayloadRef(2, (55,), 1, key.key_id))
    assert [none.status, gone.status] == ["failed", "failed"]
    assert "no payload" in (none.error or "")
    assert "payloads:2:55 is gone" in (gone.error or "")


async def test_a_payload_with_a_chunk_cut_off_fails_the_job() -> None:
    async with bench(app_of(echo)) as at:
        ref = payload_ref(at, "acme", "evt_1", b"hello ", b"world")
        ended = await read_payload(at, event=EVENT, payload_ref=replace(ref, offsets=(100,)))
    assert ended.status == "failed"
    assert "6 bytes, not 11" in (ended.error or "")


async def test_a_payload_whose_key_comes_later_is_waited_for() -> None:
    async with bench(app_of(echo)) as at:
        record = new_key_record(at.vault, "acme")
        at.transport.payloads[2, 1] = DataKey(at.vault, record).seal("evt_1", 0, b"late")
        lease = at.give(event=EVENT, payload_ref=PayloadRef(2, (1,), 4, record.id))
        async with asyncio.timeout(10):
            while not at.book._waiting:  # until the handler asks for the key
                await asyncio.sleep(0)
        at.book.apply(tenant_key("acme", "data_key", record.id), TENANT.encode(record))
        assert (await at.ended(lease)).result == '"late"'


async def test_a_payload_whose_key_does_not_come_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streams.worker.handler.payloads.KEY_SECONDS", 0.05)
    async with bench(app_of(echo)) as at:
        ended = await read_payload(at, event=EVENT, payload_ref=PayloadRef(2, (1,), 4, "key_x"))
        assert not at.book._waiting
    assert ended.status == "retry"
    assert "data key key_x" in (ended.error or "")


async def test_an_erased_tenants_payload_fails_the_job_and_says_why() -> None:
    async with bench(app_of(echo)) as at:
        ref = payload_ref(at, "acme", "evt_1", b"hello")
        erasure = TENANT.encode(TenantRecord("acme", "erasure", "", True, "{}"))
        at.book.apply(tenant_key("acme", "erasure", ""), erasure)
        ended = await read_payload(at, event=EVENT, payload_ref=ref)
    assert ended.status == "failed"
    assert "tenant acme was erased" in (ended.error or "")


async def test_an_error_that_is_no_utf_8_ends_the_run_all_the_same() -> None:
    """`json.loads` lets a vendor's lone surrogates through."""
    app = App("test")

    @app.job("job")
    async def job(ctx: Context) -> None:
        raise PermanentError("unknown customer caf\udce9")

    async with bench(app) as at:
        ended = await at.ended(at.give())
        assert (ended.status, ended.error) == (
            "failed", "PermanentError: unknown customer caf\\udce9",
        )  # fmt: skip


async def test_the_next_incarnation_of_a_job_is_another_run() -> None:
    app, ran = App("test"), []

    @app.job("job")
    async def job(ctx: Context) -> None:
        ran.append(ctx.run_id)

    async with bench(app) as at:
        await at.ended(at.give(job_id="job_same", epoch=1, run_id="run_1"))
        at.give(job_id="job_same", epoch=1, run_id="run_2", incarnation=2)
        await at.until(lambda: len(at.bodies(Ended)) == 2, "the second end")
    assert ran == ["run_1", "run_2"]


async def test_the_answer_to_a_claim_that_was_given_up_ends_no_run() -> None:
    app, go_on = App("test"), asyncio.Event()

    @app.job("job")
    async def job(ctx: Context) -> str:
        await go_on.wait()
        return "fine"

    async with bench(app) as at:
        lease = at.give()
        at.reply(lease, "lost", "clm_given_up", message="this claim has its outcome already")
        at.reply(lease, "lost", "clm_given_up")
        await asyncio.sleep(0)
        go_on.set()
        assert (await at.ended(lease)).status == "succeeded"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("odd"), True),
        (ExceptionGroup("g", [ValueError("odd"), PermanentError("never")]), True),
        (TransientError("busy"), False),
        (RetryAfter(7), False),
        (PermanentError("never"), False),
        (ExceptionGroup("g", [TransientError("busy"), PermanentError("never")]), False),
    ],
)
async def test_the_traceback_of_an_error_that_is_no_word_to_us_is_logged(
    error: Exception, told: bool
) -> None:
    async def handler(ctx: Context) -> None:
        raise error

    with structlog.testing.capture_logs() as lines:
        ended = await run_once(handler)
    raised = [line for line in lines if line["event"] == "handler raised"]
    assert [(line["log_level"], line["exc_info"]) for line in raised] == (
        [("warning", error)] if told else []
    )
    assert "Traceback" not in (ended.error or "")


@pytest.mark.parametrize("error", [None, ValueError("of the handler")])
async def test_what_a_handler_leaves_behind_starts_nothing_once_the_run_is_over(
    error: Exception | None,
) -> None:
    """The next run may have begun: of one job one run is live."""
    over, started, left = asyncio.Event(), list[str](), list[asyncio.Task[None]]()

    async def behind(ctx: Context) -> None:
        await over.wait()
        for begin in (
            lambda: ctx.step("s", started.append, "step"),
            lambda: ctx.effect("mail", lambda idempotency_key: started.append("mail"), key="k"),
            lambda: ctx.progress(1),
        ):
            with pytest.raises(LeaseLost):
                await begin()

    async def handler(ctx: Context) -> None:
        left.append(asyncio.create_task(behind(ctx)))
        if error is not None:
            raise error

    async with bench(app_of(handler)) as at:
        await at.ended(at.give())
        over.set()
        await left[0]
        assert not at.bodies(Claim)
    assert started == []


async def test_an_effect_that_a_handler_left_behind_is_given_back() -> None:
    """It was granted when the run was over: the next run need not ask a person about it."""
    calls, left = list[str](), list[asyncio.Task[None]]()

    async def behind(ctx: Context) -> None:
        with pytest.raises(LeaseLost):
            await ctx.effect("mail", lambda idempotency_key: calls.append("mail"), key="k")

    async def handler(ctx: Context) -> None:
        left.append(asyncio.create_task(behind(ctx)))
        await at.until(lambda: at.bodies(Claim), "a claim")

    async with bench(app_of(handler), answer=lambda _: None) as at:
        lease = at.give()
        await at.ended(lease)
        (claim,) = at.bodies(Claim)
        at.reply(lease, "granted", claim.claim_id, idempotency_key="k")
        assert (await at.outcome(lease)).status == "failed"
        await left[0]
    assert calls == []


def test_a_system_exit_in_a_task_of_a_handler_ends_its_run_and_no_other() -> None:
    """As of a library that ends the process where it was called for the command line."""
    ends = list[Ended]()

    async def leaves() -> None:
        sys.exit(3)

    async def exits(ctx: Context) -> None:
        await asyncio.gather(leaves())

    async def lives(ctx: Context) -> str:
        return str(await ctx.step("s", lambda: "lived"))

    async def main() -> None:
        app = app_of(lives)
        app.job("exits")(exits)
        async with bench(app) as at:
            for lease in (at.give("exits"), at.give()):
                ends.append(await at.ended(lease))

    loop = uvloop.new_event_loop()
    try:
        run_to_its_end(loop, main())
    finally:
        loop.close()
    assert [(each.status, each.error, each.result) for each in ends] == [
        ("retry", "SystemExit: 3", None), ("succeeded", None, '"lived"'),
    ]  # fmt: skip


@pytest.mark.parametrize("error", [ValueError("of the worker"), SystemExit(2)])
def test_what_the_worker_itself_raises_ends_it(error: BaseException) -> None:
    async def main() -> None:
        raise error

    loop = uvloop.new_event_loop()
    try:
        with pytest.raises(type(error)):
            run_to_its_end(loop, main())
    finally:
        loop.close()

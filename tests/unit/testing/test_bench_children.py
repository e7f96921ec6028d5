"""Jobs of jobs in a bench: each is made once, and ends with the one that asked for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from streams import (
    App,
    ChildConflict,
    ChildFailed,
    Context,
    PermanentError,
    Retry,
    TransientError,
    WaitTimeout,
)
from streams.serde.sizes import PRODUCER_BATCH_BYTES
from streams.testing import Bench, crash_points

HOUR = 3_600


def send(idempotency_key: str, **kwargs: Any) -> dict[str, Any]:
    return {"sent": True}


async def leaf(ctx: Context) -> Any:
    """A job that counts, fails, asks a person or waits, as its input says."""
    asked = ctx.input
    await ctx.effect("mail", send, key="1", n=asked["n"])
    if asked.get("fails"):
        raise PermanentError("no good")
    if asked.get("waits"):
        await ctx.sleep(asked["waits"])
    return asked["n"] * 2


@contextmanager
def bench_of(*handlers: Any, **options: Any) -> Iterator[Bench]:
    app = App("kids")
    app.tool("mail", key_lifetime=HOUR)
    for handler in (leaf, *handlers):
        app.job(handler.__name__, retry=Retry(max_attempts=2, backoff=(1,)))(handler)
    with Bench(app, **options) as bench:
        yield bench


async def asker(ctx: Context) -> Any:
    first = await ctx.enqueue("leaf", {"n": 1})
    second = await ctx.enqueue("leaf", {"n": 2})
    gathered = await ctx.gather(
        [ctx.child("leaf", {"n": n}) for n in (3, 4, 5)], key="all", limit=2
    )
    return [await first, await second, *gathered]


def test_wherever_a_run_is_lost_each_job_is_made_once() -> None:
    for crash in crash_points():
        with bench_of(asker, crash=crash) as bench:
            job = bench.submit("asker", key="1").run()
            assert job.result == [2, 4, 6, 8, 10]
            assert sorted(call.args["n"] for call in bench.happened) == [1, 2, 3, 4, 5]
            assert len(job.children) == 5


async def catching(ctx: Context) -> Any:
    try:
        return await ctx.enqueue("leaf", {"n": 1, "fails": True}, wait=True)
    except ChildFailed as error:
        return [error.job_id, error.type, error.error]


def test_the_failure_of_a_job_goes_up_with_its_type_and_message() -> None:
    with bench_of(catching) as bench:
        job = bench.submit("catching").run()
        (child,) = job.children
        assert job.result == [child.id, "leaf", "PermanentError: no good"]
        assert child.status == "failed"


async def letting_it_through(ctx: Context) -> Any:
    return await ctx.enqueue("leaf", {"n": 1, "fails": True}, wait=True)


def test_a_job_that_lets_the_failure_through_fails_at_once() -> None:
    with bench_of(letting_it_through) as bench:
        job = bench.submit("letting_it_through").run()
        assert (job.status, job.attempts) == ("failed", 1)
        assert "PermanentError: no good" in (job.error or "")


@pytest.mark.parametrize("key", [None, "k"])
def test_the_same_call_with_another_input_is_a_conflict(key: str | None) -> None:
    inputs = iter([1, 2])

    async def changing(ctx: Context) -> Any:
        await ctx.enqueue("leaf", {"n": next(inputs)}, key=key)
        await ctx.effect("mail", send, key="own")
        raise TransientError("once more")

    with bench_of(changing) as bench:
        job = bench.submit("changing").run()
        assert (job.status, len(job.children)) == ("failed", 1)
        assert (job.error or "").startswith(ChildConflict.__name__)


def test_two_parents_with_one_key_have_a_job_each() -> None:
    async def keyed(ctx: Context) -> Any:
        return (await ctx.enqueue("leaf", {"n": 1}, key="k")).job_id

    with bench_of(keyed) as bench:
        found = {bench.submit("keyed", key=str(n)).run().result for n in range(2)}
        assert len(found) == 2
        assert len(bench.happened) == 2


def test_calls_at_once_are_numbered_in_the_order_in_which_they_are_made() -> None:
    async def at_once(ctx: Context) -> Any:
        calls = (ctx.enqueue("leaf", {"n": n}, key=str(n)) for n in range(5))
        return await ctx.all(*await asyncio.gather(*calls))

    with bench_of(at_once) as bench:
        assert bench.submit("at_once").run().result == [0, 2, 4, 6, 8]


def test_a_list_in_another_order_is_refused() -> None:
    orders = iter([(1, 2), (2, 1)])

    async def reordered(ctx: Context) -> Any:
        jobs = [ctx.child("leaf", {"n": n, "waits": HOUR}) for n in next(orders)]
        await ctx.first(all=ctx.gather(jobs, key="all"), late=ctx.sleep(60))
        return await ctx.gather(jobs, key="all")

    with bench_of(reordered) as bench:
        job = bench.submit("reordered").run()
        bench.advance(61)
        assert job.run().status == "failed"
        assert (job.error or "").startswith(ChildConflict.__name__)


@pytest.mark.parametrize("count", [0, 1, 230])
def test_a_gather_gives_the_results_in_order(count: int) -> None:
    async def many(ctx: Context) -> Any:
        return await ctx.gather([ctx.child("leaf", {"n": n}) for n in range(count)], key="all")

    with bench_of(many) as bench:
        assert bench.submit("many").run().result == [n * 2 for n in range(count)]
        assert Counter(call.args["n"] for call in bench.calls) == Counter(range(count))


def test_no_more_jobs_run_at_a_time_than_the_limit_says() -> None:
    running: set[int] = set()
    most = 0

    async def counting(ctx: Context) -> Any:
        nonlocal most
        running.add(ctx.input)
        most = max(most, len(running))
        await asyncio.sleep(5)
        running.discard(ctx.input)

    async def many(ctx: Context) -> Any:
        jobs = [ctx.child("counting", n) for n in range(20)]
        return len(await ctx.gather(jobs, key="all", limit=3))

    with bench_of(counting, many) as bench:
        assert bench.submit("many").run().result == 20
        assert most == 3


async def collecting(ctx: Context) -> Any:
    jobs = [ctx.child("leaf", {"n": n, "fails": n in ctx.input["fail"]}) for n in range(6)]
    found = await ctx.gather(
        jobs,
        key="all",
        on_failure="collect",
        limit=ctx.input.get("limit", 6),
        tolerated=ctx.input.get("tolerated"),
        min_success=ctx.input.get("min_success"),
    )
    return [each.result if each.status == "succeeded" else each.error for each in found]


def test_a_gather_that_collects_gives_the_outcome_of_each() -> None:
    with bench_of(collecting) as bench:
        job = bench.submit("collecting", {"fail": [1, 4]}).run()
        error = "PermanentError: no good"
        assert job.result == [0, error, 4, 6, error, 10]


@pytest.mark.parametrize(
    ("asked", "ends"),
    [
        ({"fail": [1, 4], "tolerated": 2}, "succeeded"),
        ({"fail": [1, 4], "tolerated": 1}, "failed"),
        ({"fail": [1, 4], "min_success": 4}, "succeeded"),
        ({"fail": [1, 4], "min_success": 5}, "failed"),
    ],
)
def test_a_gather_fails_with_more_failures_than_it_bears(asked: Any, ends: str) -> None:
    with bench_of(collecting) as bench:
        assert bench.submit("collecting", asked).run().status == ends


def test_the_first_failure_ends_the_others_and_begins_no_more() -> None:
    async def failing(ctx: Context) -> Any:
        jobs = [ctx.child("leaf", {"n": n, "fails": n == 1, "waits": HOUR}) for n in range(9)]
        try:
            await ctx.gather(jobs, key="all", limit=3)
        except ChildFailed as error:
            return error.type

    with bench_of(failing) as bench:
        job = bench.submit("failing").run()
        assert job.result == "leaf"
        assert [child.status for child in job.children] == ["cancelled", "failed", "cancelled"]


def test_a_cancel_goes_down_to_all_levels_and_no_further() -> None:
    async def root(ctx: Context) -> Any:
        await ctx.enqueue("leaf", {"n": 1, "waits": HOUR}, on_parent="abandon")
        await ctx.enqueue("middle", wait=True)

    async def middle(ctx: Context) -> Any:
        await ctx.enqueue("leaf", {"n": 2, "waits": HOUR}, wait=True)

    with bench_of(root, middle) as bench:
        job = bench.submit("root").run().cancel("not needed")
        abandoned, child = job.children
        (grandchild,) = child.children
        bench.advance(1)
        assert [each.status for each in (job, child, grandchild)] == ["cancelled"] * 3
        assert "cancelled" in (grandchild.error or "")
        bench.advance(HOUR)
        assert abandoned.status == "succeeded"


def test_a_job_that_succeeds_leaves_its_jobs_alone_and_a_cancel_above_it_does_not() -> None:
    async def root(ctx: Context) -> Any:
        await ctx.enqueue("middle", wait=True)
        await ctx.sleep(HOUR)

    async def middle(ctx: Context) -> Any:
        await ctx.enqueue("leaf", {"n": 1, "waits": 2 * HOUR})

    with bench_of(root, middle) as bench:
        job = bench.submit("root").run()
        (child,) = job.children
        (grandchild,) = child.children
        assert (child.status, grandchild.status) == ("succeeded", "waiting")
        job.cancel()
        bench.advance(1)
        assert grandchild.status == "cancelled"


def test_a_job_of_a_tree_that_is_cancelled_can_ask_for_no_more() -> None:
    async def root(ctx: Context) -> Any:
        await ctx.enqueue("middle", wait=True)

    async def middle(ctx: Context) -> Any:
        await ctx.effect("mail", send, key="stands")
        await ctx.enqueue("leaf", {"n": 1})

    with bench_of(root, middle) as bench:
        job = bench.submit("root")
        bench.fake("mail", returns={})
        job.run()
        assert job.status == "succeeded"
        job = bench.submit("root", key="second")
        bench.fake("mail", calls=lambda **_: job.cancel(), takes=1)
        job.run()
        bench.advance(5)
        (child,) = job.children
        assert (job.status, child.status, child.children) == ("cancelled", "cancelled", [])


def test_a_replay_of_the_parent_repeats_the_jobs_that_failed_and_no_others() -> None:
    broken = True

    async def flaky(ctx: Context) -> Any:
        await ctx.effect("mail", send, key="flaky")
        if broken:
            raise PermanentError("down")
        return "up"

    async def parent(ctx: Context) -> Any:
        done = await ctx.enqueue("leaf", {"n": 1}, wait=True)
        many = await ctx.gather(
            [ctx.child("leaf", {"n": 2}), ctx.child("flaky"), ctx.child("leaf", {"n": 3})],
            key="all",
            limit=1,
        )
        return [done, *many]

    with bench_of(flaky, parent) as bench:
        job = bench.submit("parent").run()
        assert job.status == "failed"
        broken = False
        again = job.replay(note="it is up").run()
        assert again.result == [2, 4, "up", 6]
        assert sorted(call.args.get("n", 0) for call in bench.happened) == [0, 1, 2, 3]


async def doubtful(ctx: Context) -> Any:
    """A job whose first run leaves an effect of unknown outcome."""
    return await ctx.effect("plain", send, key="1")


@pytest.mark.parametrize("gathers", [False, True])
def test_a_job_in_review_leaves_its_parent_waiting_also_when_it_is_replayed(gathers: bool) -> None:
    async def parent(ctx: Context) -> Any:
        if gathers:
            return await ctx.gather([ctx.child("doubtful")], key="all")
        return [await ctx.enqueue("doubtful", wait=True)]

    with bench_of(doubtful, parent) as bench:
        bench.fake("plain", in_turn=[RuntimeError("who knows"), {"sent": True}])
        job = bench.submit("parent").run()
        (child,) = job.children
        assert (job.status, child.status) == ("waiting", "needs_review")
        again = child.replay(note="again", fresh_scope=True, repeat_effects=["plain/1"])
        assert again.run().status == "succeeded"
        assert job.run().result == [{"sent": True}]


def test_a_job_that_is_replayed_after_its_parent_ended_does_not_revive_it() -> None:
    with bench_of(letting_it_through) as bench:
        job = bench.submit("letting_it_through").run()
        (child,) = job.children
        assert child.replay(note="again").run().status == "failed"
        assert (job.status, len(job.record.history)) == ("failed", 1)


def test_a_circle_of_jobs_is_refused() -> None:
    async def parent(ctx: Context) -> Any:
        return await ctx.gather([ctx.child("waiter", ctx.job_id)], key="all")

    async def waiter(ctx: Context) -> Any:
        return await ctx.wait_for_job(ctx.input)

    with bench_of(parent, waiter) as bench:
        job = bench.submit("parent").run()
        assert job.status == "failed"
        assert "each would wait for ever" in (job.children[0].error or "")


def test_jobs_may_not_stand_too_deep() -> None:
    async def deeper(ctx: Context) -> Any:
        return await ctx.enqueue("deeper", wait=True)

    with bench_of(deeper) as bench:
        job = bench.submit("deeper").run()
        assert job.status == "failed"
        levels = 0
        while job.children:
            (job,) = job.children
            levels += 1
        assert levels == 32
        assert "workflows.most_levels" in (job.error or "")


def test_a_list_that_is_too_long_fails_at_once() -> None:
    async def many(ctx: Context) -> Any:
        await ctx.gather([ctx.child("leaf", {"n": n}) for n in range(10_001)], key="all")

    with bench_of(many) as bench:
        job = bench.submit("many").run()
        assert (job.status, job.children) == ("failed", [])
        assert "workflows.most_children" in (job.error or "")


def test_a_job_is_a_wait_like_any_other() -> None:
    async def hurried(ctx: Context) -> Any:
        child = await ctx.enqueue("leaf", {"n": 1, "waits": HOUR})
        return (await ctx.first(done=child, late=ctx.sleep(60)))[0]

    with bench_of(hurried) as bench:
        job = bench.submit("hurried").run()
        bench.advance(61)
        assert job.run().result == "late"


def test_a_delayed_job_begins_later_with_the_priority_of_its_parent() -> None:
    async def later(ctx: Context) -> Any:
        return await ctx.enqueue("leaf", {"n": 1}, delay=HOUR, wait=True)

    with bench_of(later) as bench:
        job = bench.submit("later")
        bench.advance(60)
        (child,) = job.children
        assert (child.status, child.record.priority) == ("scheduled", job.record.priority)
        assert job.run().result == 2
        assert HOUR < bench.seconds < HOUR + 60


async def counting_down(ctx: Context) -> Any:
    left = ctx.input
    await ctx.effect("mail", send, key="tick", n=left)
    await ctx.step("step", int, left)
    if left:
        ctx.continue_as_new(left - 1)
    return "done"


def test_a_job_that_continues_as_new_has_a_fresh_history_each_time() -> None:
    for crash in crash_points():
        with bench_of(counting_down, crash=crash) as bench:
            job = bench.submit("counting_down", 2, key="1").run()
            assert (job.result, job.record.continuations, job.record.incarnation) == ("done", 2, 3)
            assert [call.args["n"] for call in bench.happened] == [2, 1, 0]
            assert list(job.steps.values()) == [0]


def test_whoever_waits_for_a_job_that_continues_as_new_goes_on_waiting() -> None:
    async def waiting(ctx: Context) -> Any:
        return await ctx.enqueue("counting_down", 3, wait=True)

    with bench_of(counting_down, waiting) as bench:
        assert bench.submit("waiting").run().result == "done"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"on_parent": "stay"}, "on_parent"),
        ({"delay": -1}, "delay"),
        ({"priority": ""}, "priority"),
        ({"input": {1: object()}}, "not JSON"),
    ],
)
def test_what_cannot_be_asked_for_is_named(wrong: dict[str, Any], told: str) -> None:
    async def asking(ctx: Context) -> Any:
        await ctx.enqueue("leaf", **({"input": {"n": 1}} | wrong))

    with bench_of(asking) as bench:
        job = bench.submit("asking").run()
        assert (job.status, job.children) == ("failed", [])
        assert told in (job.error or "")


@pytest.mark.parametrize("asks", ["wait", "first", "gather", "first of a gather"])
def test_a_replay_goes_another_way_where_the_job_succeeds_this_time(asks: str) -> None:
    """The first run undid what it had done, and failed; the steps of that are no evidence."""
    broken = True

    async def flaky(ctx: Context) -> Any:
        if broken:
            raise PermanentError("down")
        return "up"

    async def undoing(ctx: Context) -> Any:
        try:
            if asks == "wait":
                found = await ctx.enqueue("flaky", wait=True)
            elif asks == "first":
                found = (await ctx.first(a=await ctx.enqueue("flaky"), b=ctx.sleep(HOUR)))[1]
            elif asks == "gather":
                found = await ctx.gather([ctx.child("flaky")], key="all")
            else:
                gathered = ctx.gather([ctx.child("flaky")], key="all")
                found = (await ctx.first(a=gathered, b=ctx.sleep(HOUR)))[1]
        except ChildFailed:
            await ctx.step("undo", str, "undone")
            raise
        return [found, await ctx.step("after", str, "done")]

    with bench_of(flaky, undoing) as bench:
        job = bench.submit("undoing").run()
        assert job.status == "failed"
        broken = False
        again = job.replay(note="it is up").run()
        assert again.status == "succeeded", again.error
        assert again.result == ["up" if asks in ("wait", "first") else ["up"], "done"]


def test_a_list_with_other_keys_is_another_list() -> None:
    keys = iter(["ab", "ba"])

    async def renamed(ctx: Context) -> Any:
        jobs = [ctx.child("leaf", {"n": 1, "waits": HOUR}, key=key) for key in next(keys)]
        await ctx.first(all=ctx.gather(jobs, key="all"), late=ctx.sleep(60))
        return await ctx.gather(jobs, key="all")

    with bench_of(renamed) as bench:
        job = bench.submit("renamed").run()
        bench.advance(61)
        assert job.run().status == "failed"
        assert (job.error or "").startswith(ChildConflict.__name__)


@pytest.mark.parametrize("key", ["", "a\0b", 7, "k" * 257, "\ud800"])
def test_a_list_names_a_key_that_cannot_be_kept(key: Any) -> None:
    async def asking(ctx: Context) -> Any:
        await ctx.gather([ctx.child("leaf", {"n": 1}, key=key)], key="all")

    with bench_of(asking) as bench:
        job = bench.submit("asking").run()
        assert (job.status, job.attempts, job.children) == ("failed", 1, [])
        assert "1 to 256 characters" in (job.error or "")


@pytest.mark.parametrize("text", ["\u4e2d" * 87_370, '"' * 130_000, "\\" * 130_000])
def test_large_inputs_and_results_of_a_list_fit_the_messages(text: str) -> None:
    async def echo(ctx: Context) -> Any:
        return ctx.input

    async def many(ctx: Context) -> Any:
        found = await ctx.gather([ctx.child("echo", text) for _ in range(6)], key="all")
        return [each == text for each in found]

    with bench_of(echo, many) as bench:
        assert bench.submit("many").run().result == [True] * 6
        sizes = [len(each.value or b"") for each in bench._behind.pipeline.output("jobs")]
        assert max(sizes) < PRODUCER_BATCH_BYTES


def test_no_job_begins_anew_while_it_calls_a_tool() -> None:
    """The outcome would be left in the scope of the life before, where nobody asks for it."""

    async def hasty(ctx: Context) -> Any:
        call = asyncio.create_task(ctx.effect("mail", send, key="1"))
        await asyncio.sleep(1)
        if ctx.input:
            ctx.continue_as_new(None)
        return await call

    with bench_of(hasty) as bench:
        bench.fake("mail", returns={}, takes=5)
        job = bench.submit("hasty", 1).run()
        assert (job.status, job.record.continuations) == ("failed", 0)
        assert "another task calls a tool" in (job.error or "")


async def gathering_beside_events(ctx: Context) -> str:
    jobs = ctx.gather([ctx.child("leaf", {"n": 1, "waits": 9 * HOUR})], key="g", timeout=HOUR)
    for number in range(9):
        try:
            await ctx.first(jobs=jobs, event=ctx.wait_for_event({"subject": "a"}))
        except WaitTimeout:
            return f"late after {number}"
    return "never"


def test_the_time_of_a_gather_is_not_begun_anew_when_another_wait_came_first() -> None:
    with bench_of(gathering_beside_events) as bench:
        job = bench.submit("gathering_beside_events").run()
        for minutes in (30, 25):
            bench.advance(minutes * 60)
            bench.deliver("e", subject="a", key=str(minutes))
            assert job.run().status == "waiting"
        bench.advance(5 * 60 + 1)
        assert job.run().result == "late after 2"

"""Tools are called for real, or answered by fakes; the ledger cannot tell which."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import urlopen

import pytest
from aiohttp import ClientSession, web
from support.bench_apps import app_of, keyed_effect, one_effect, tool

from streams import App, Context, PermanentError, RetryAfter, TransientError
from streams.errors import ConfigError
from streams.testing import Bench, Call, Effect


def test_the_applications_function_is_called_unless_it_is_faked() -> None:
    with Bench(app_of(one_effect)) as bench:
        job = bench.submit("job").run()
        assert job.result == {"did": {"n": 1}}
        bench.fake("plain", returns={"refund": 7})
        assert bench.submit("job").run().result == {"refund": 7}
        assert bench.calls == [Call("plain", "1", {"n": 1})] * 2
        assert bench.calls[0].idempotency_key == job.effects[0].idempotency_key != ""


def test_a_strict_bench_calls_nothing_that_is_not_faked() -> None:
    with Bench(app_of(one_effect), strict=True) as bench:
        job = bench.submit("job")
        with pytest.raises(AssertionError, match=r"has no fake, .*: add bench.fake\('plain'"):
            job.run()
        assert (bench.calls, job.effects[0].status) == ([], "failed")
        bench.fake("plain", returns=1)
        assert bench.submit("job").run().result == 1


def test_a_fake_of_an_action_precedes_one_of_its_tool() -> None:
    with Bench(app_of(one_effect)) as bench:
        bench.fake("plain/1", returns="of the action")
        bench.fake("plain", returns="of the tool")
        assert bench.submit("job").run().result == "of the action"


def test_answers_come_in_turn_and_the_last_repeats() -> None:
    with Bench(app_of(one_effect)) as bench:
        bench.fake("plain", in_turn=[TransientError("busy"), 1, 2])
        results = [bench.submit("job").run().result for _ in range(3)]
        assert results == [1, 2, 2]


def test_a_fake_may_be_a_function_of_the_tools_parameters() -> None:
    def answer(n: int, idempotency_key: str) -> dict[str, Any]:
        return {"n": n, "key": idempotency_key}

    with Bench(app_of(one_effect)) as bench:
        bench.fake("plain", calls=answer)
        job = bench.submit("job").run()
        assert job.result == {"n": 1, "key": job.effects[0].idempotency_key}


def test_a_fake_without_an_answer_returns_null() -> None:
    with Bench(app_of(one_effect)) as bench:
        bench.fake("plain")
        assert bench.submit("job").run().effects == [Effect("plain", "1", {"n": 1}, "done", None)]


def test_a_fake_has_one_answer() -> None:
    with Bench(app_of(one_effect)) as bench, pytest.raises(ConfigError, match="not several"):
        bench.fake("plain", returns=1, raises=ValueError)


@pytest.mark.parametrize("error", [ConnectionResetError, ConnectionResetError("by peer")])
def test_an_error_is_raised_each_time_as_if_for_the_first(error: Any) -> None:
    with Bench(app_of(keyed_effect)) as bench:
        bench.fake("keyed", raises=error)
        job = bench.submit("job").run()
        assert (job.status, len(job.calls)) == ("dead", 3)


@pytest.mark.parametrize(
    ("error", "status", "ended"),
    [
        (TransientError("x"), "failed", "scheduled"),
        (RetryAfter(5), "failed", "scheduled"),
        (PermanentError("x"), "failed", "failed"),
        (ConnectionRefusedError(), "failed", "scheduled"),
        (ConnectionResetError(), "unknown", "scheduled"),
        (KeyError("x"), "unknown", "scheduled"),
    ],
)
def test_the_product_judges_the_errors_of_fakes(error: Exception, status: str, ended: str) -> None:
    with Bench(app_of(one_effect)) as bench:
        bench.fake("plain", raises=error)
        job = bench.submit("job").run(runs=1)
        assert ([effect.status for effect in job.effects], job.status) == ([status], ended)


def test_an_error_that_the_application_declares_did_nothing() -> None:
    class NotConnected(Exception):
        pass

    app = App("vendor")
    app.tool("plain", nothing_done=(NotConnected,))
    app.job("job")(one_effect)
    with Bench(app) as bench:
        bench.fake("plain", in_turn=[NotConnected(), 1])
        assert bench.submit("job").run().effects[0].status == "done"


def wrong_parameters(n: int) -> None:
    """It takes no key."""


def generator(idempotency_key: str, n: int) -> Any:
    yield idempotency_key, n


@pytest.mark.parametrize("function", [wrong_parameters, generator, 7])
def test_a_faked_function_has_to_be_callable_as_an_effects_all_the_same(function: Any) -> None:
    async def handle(ctx: Context) -> Any:
        return await ctx.effect("plain", function, key="1", n=1)

    with Bench(app_of(handle)) as bench:
        bench.fake("plain", returns=1)
        job = bench.submit("job").run()
        assert (job.status, job.effects, job.calls) == ("failed", [], [])


def test_functions_that_are_not_async_run_in_threads_and_time_waits_for_them() -> None:
    names: list[str] = []

    def slow(idempotency_key: str, **_: Any) -> int:
        time.sleep(0.05)
        names.append(threading.current_thread().name)
        return 5

    async def handle(ctx: Context) -> Any:
        first = await ctx.effect("plain", slow, key="1")
        second = await ctx.effect("plain", partial(slow, n=1), key="2")
        return [first, second, await ctx.step("s", time.sleep, 0.01)]

    with Bench(app_of(handle, timeout=10)) as bench:
        job = bench.submit("job").run()
        assert job.result == [5, 5, None]
        assert threading.current_thread().name not in names
        assert bench.seconds < 9


def test_to_thread_and_real_sockets_are_waited_for() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/"

    async def handle(ctx: Context) -> Any:
        body = await asyncio.to_thread(lambda: urlopen(url, None, 10).read().decode())
        async with ClientSession() as session, session.get(url) as answer:
            return [body, await answer.text()]

    with Bench(app_of(handle, timeout=10)) as bench:
        assert bench.submit("job").run().result == ["slow", "slow"]
        assert bench.seconds < 9
    server.shutdown()
    server.server_close()


class _Slow(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        time.sleep(0.1)
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"slow")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """A service in the test's own event loop."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="here")

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}/"
    await runner.cleanup()


def fetching(url: str) -> Callable[[Context], Any]:
    async def fetch(idempotency_key: str) -> str:
        async with ClientSession() as session, session.get(url) as answer:
            return await answer.text()

    async def handle(ctx: Context) -> Any:
        return await ctx.effect("plain", fetch, key="1")

    return handle


async def test_an_async_test_may_call_the_bench(url: str) -> None:
    with Bench(app_of(one_effect)) as bench:
        job = bench.submit("job").crash_in("plain").run()
        assert job.status == "needs_review"
        assert job.settle_done("plain/1", 7).run().result == 7


async def test_the_loop_of_an_async_test_may_answer_the_handler(url: str) -> None:
    with Bench(app_of(fetching(url))) as bench:
        job = bench.submit("job")
        await asyncio.to_thread(job.run)
        assert job.result == "here"


async def test_a_handler_that_waits_for_the_blocked_loop_of_the_test_is_told(url: str) -> None:
    with Bench(app_of(fetching(url)), patience=0.3) as bench:
        job = bench.submit("job")
        with pytest.raises(AssertionError, match=r"await\s+asyncio.to_thread\(job.run\)"):
            job.run()


def test_two_calls_under_one_key_at_once_are_refused() -> None:
    async def handle(ctx: Context) -> None:
        await asyncio.gather(ctx.effect("plain", tool, key="1"), ctx.effect("plain", tool, key="1"))

    with Bench(app_of(handle)) as bench:
        bench.fake("plain", takes=1)
        job = bench.submit("job").run()
        assert job.status == "failed"
        assert "under way in this job already" in (job.error or "")


def test_other_arguments_under_the_same_key_are_refused_and_the_first_are_shown() -> None:
    async def handle(ctx: Context) -> None:
        await ctx.effect("plain", tool, key="1", n=1)
        await ctx.effect("plain", tool, key="1", n=2)

    with Bench(app_of(handle)) as bench:
        job = bench.submit("job").run()
        assert (job.status, len(job.calls)) == ("failed", 1)
        assert job.effects == [Effect("plain", "1", {"n": 1}, "done", {"did": {"n": 1}})]


def test_a_tool_outside_the_scopes_of_its_job_is_not_called() -> None:
    with Bench(app_of(one_effect, scopes={"keyed"})) as bench:
        job = bench.submit("job").run()
        assert (job.status, job.effects, job.calls) == ("failed", [], [])
        assert "may not use 'plain'" in (job.error or "")

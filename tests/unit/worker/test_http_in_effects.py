"""What `ctx.http` says of an effect, as the ledger has it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from streams import App, Context, TransientError
from streams.testing import Bench

app = App("shop")


class Service(BaseHTTPRequestHandler):
    """Takes each request."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Stay silent."""


@pytest.fixture
def service() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@app.job("asks")
async def asks(ctx: Context) -> int:
    return (await ctx.http.post(ctx.input)).status


def test_a_bench_waits_for_a_name_that_is_looked_up(
    service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = socket.getaddrinfo

    def slow(*args: Any, **options: Any) -> Any:
        time.sleep(0.1)
        return found(*args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with Bench(app, strict=False) as bench:
        job = bench.submit("asks", service.replace("127.0.0.1", "localhost")).run()
    assert (job.status, job.result) == ("succeeded", 200)


@app.job("charge")
async def charge(ctx: Context) -> None:
    async def by_one_or_the_other(idempotency_key: str) -> None:
        try:
            await ctx.http.post(ctx.input["first"])
        except TransientError:
            await ctx.http.post(ctx.input["second"])  # and its answer is not looked at
            raise

    await ctx.effect("payment:charge", by_one_or_the_other, key="1")


def test_an_effect_that_sent_something_after_an_error_is_not_done_again(service: str) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{found.getsockname()[1]}/"
    with Bench(app, strict=False) as bench:
        job = bench.submit("charge", {"first": closed, "second": service}).run()
        assert (job.status, job.effects[0].status) == ("needs_review", "review")
        other = bench.submit("charge", {"first": closed, "second": closed}).run(runs=1)
        assert other.effects[0].status == "failed"

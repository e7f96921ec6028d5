"""A body that does not come as it was announced is its sender's fault, and is in no log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from aiohttp import ClientSession, web
from structlog.testing import capture_logs
from support.callers import access_of
from support.conditions import PATIENCE_SECONDS

from streams.api.serving.access import authenticated
from streams.api.serving.middlewares import problems
from streams.http.server_log import SERVER_LOG

CANARY = b"s3cret-of-a-client"
HEADERS = {"Authorization": "Bearer right"}
CHUNKED = (
    b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer right\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
)


class Operator:
    """An application that reads bodies, and tells when it has begun and ended to do so."""

    def __init__(self) -> None:
        self.begun, self.ended = asyncio.Event(), asyncio.Event()
        guards = [self._watched, problems, authenticated(access_of("right"))]
        app = web.Application(middlewares=guards)
        app.router.add_post("/v1/jobs", self._read)
        self.runner = web.AppRunner(app, access_log=None, logger=SERVER_LOG)

    @property
    def port(self) -> int:
        found: int = self.runner.addresses[0][1]
        return found

    @web.middleware
    async def _watched(self, request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            answer: web.StreamResponse = await handler(request)
            return answer
        finally:
            self.ended.set()

    async def _read(self, request: web.Request) -> web.Response:
        self.begun.set()
        return web.json_response({"size": len(await request.read())})


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    made = Operator()
    await made.runner.setup()
    await web.TCPSite(made.runner, "127.0.0.1", 0).start()
    async with asyncio.timeout(PATIENCE_SECONDS):
        yield made
    await made.runner.cleanup()


async def test_a_body_that_is_not_compressed_as_it_says_is_refused(operator: Operator) -> None:
    headers = HEADERS | {"Content-Encoding": "gzip"}
    with capture_logs() as logs:
        async with ClientSession() as client:
            url = f"http://127.0.0.1:{operator.port}/v1/jobs"
            async with client.post(url, data=CANARY, headers=headers) as answer:
                told = orjson.loads(await answer.read())
    assert (answer.status, told["type"]) == (400, "urn:tidegate:problem:bad-request")
    assert logs == []


@pytest.mark.parametrize("rest", [b"zz" + CANARY + b"\r\n", b""])
async def test_a_body_that_breaks_off_is_no_failure_of_the_operator(
    operator: Operator, rest: bytes
) -> None:
    """Whoever may call could fill the log otherwise, with what they send."""
    with capture_logs() as logs:
        reader, writer = await asyncio.open_connection("127.0.0.1", operator.port)
        writer.write(CHUNKED)
        await operator.begun.wait()
        writer.write(rest)
        writer.close()
        await operator.ended.wait()
        assert b" 500 " not in await reader.read()
    assert logs == []

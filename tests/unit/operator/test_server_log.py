"""A request that is no HTTP is answered, and what it contains is in no log."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from support.conditions import PATIENCE_SECONDS

from streams.probe_routes import served

SECRET = "tg_0123456789abcdef"


@pytest.mark.parametrize(
    "request_",
    [
        f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SECRET}\x01\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SECRET}{'x' * 9000}\r\n\r\n",
        f"GET /?ticket={SECRET}\u00ff HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["control character", "too long", "no URL"],
)
async def test_a_secret_in_a_malformed_request_is_in_no_log(
    caplog: pytest.LogCaptureFixture, request_: str
) -> None:
    async with served(web.Application(), "127.0.0.1", 0) as port, asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_.encode("latin-1"))
        assert b"400 Bad Request" in await reader.readline()
        writer.close()
    assert SECRET not in caplog.text


async def test_a_fault_of_a_handler_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: web.Request) -> web.Response:
        raise ValueError("ours")

    app = web.Application()
    app.router.add_get("/", fail)
    async with served(app, "127.0.0.1", 0) as port, asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"500 Internal Server Error" in await reader.readline()
        writer.close()
    assert "ValueError: ours" in caplog.text

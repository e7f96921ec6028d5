"""A port that is not the ingress's alone: its hooks are, and nothing else."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest
from aiohttp import web
from support.ingress_app import running

from ingress.http.public_port import handed_down, inherited
from streams.errors import ConfigError
from streams.http.forward import Origin, forward, forwarding_session


class Rest:
    """Whoever serves what is no hook, and what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        return web.json_response({"by": "the rest"})


async def test_hooks_are_answered_and_all_else_is_passed_on() -> None:
    rest = Rest()
    async with running(elsewhere=rest) as edge:
        hook = await edge.deliver("acme", b'{"id": "e1"}')
        wrong = await edge.client.get(f"{edge.url}/v1/hooks/acme/zendesk")
        for path in ("/v1/jobs", "/readyz", "/metrics", "/v1/hooks", "/"):
            answer = await edge.client.get(edge.url + path)
            assert (await answer.json()) == {"by": "the rest"}
    assert (hook[0], wrong.status) == (202, 405)
    assert rest.asked == [f"GET {p}" for p in ("/v1/jobs", "/readyz", "/metrics", "/v1/hooks", "/")]


async def test_a_body_that_waits_to_be_asked_for_is_passed_on() -> None:
    async def rest(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=await request.read())

    async with running(elsewhere=rest) as edge, asyncio.timeout(5):
        url = f"{edge.url}/v1/jobs"
        async with edge.client.post(url, data=b"whole", expect100=True) as answer:
            assert await answer.read() == b"whole"


async def test_a_client_that_leaves_ends_the_request_that_was_passed_on() -> None:
    arrived, left = asyncio.Event(), asyncio.Event()

    async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await reader.read()
        writer.close()
        left.set()

    server = await asyncio.start_server(hangs, "127.0.0.1", 0)
    origin = Origin("it", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with (
        server,
        forwarding_session() as session,
        running(elsewhere=lambda request: forward(session, request, [origin])) as edge,
        asyncio.timeout(10),
    ):
        asking = asyncio.create_task(edge.client.get(f"{edge.url}/v1/jobs"))
        await arrived.wait()
        asking.cancel()
        await left.wait()
        await edge.router.idle()


async def test_what_is_no_http_gets_the_ingresss_answer() -> None:
    rest = Rest()
    async with running(elsewhere=rest) as edge:
        with socket.create_connection(("127.0.0.1", edge.port)) as sender:
            sender.setblocking(False)
            sender.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
            answer = await asyncio.get_running_loop().sock_recv(sender, 65_536)
    assert answer.split()[1] == b"400"
    assert rest.asked == []


def test_a_listener_is_inherited_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for name, value in handed_down(listener, "http://127.0.0.1:9").items():
            monkeypatch.setenv(name, value)
        public = inherited()
        assert public is not None
        assert public.rest == "http://127.0.0.1:9"
        assert public.listener.getsockname() == listener.getsockname()
        assert inherited() is None, "what this process starts gets nothing of it"
        public.listener.detach()
    assert not [name for name in os.environ if name.startswith("TIDEGATE_PUBLIC")]


@pytest.mark.parametrize("named", ["", "x", "9999"])
def test_no_listener_is_told(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("TIDEGATE_PUBLIC_FD", named)
    with pytest.raises(ConfigError, match=r"TIDEGATE_PUBLIC_FD=.*unset it"):
        inherited()

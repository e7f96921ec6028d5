"""What one port serves beside the hooks, between a real client and real servers."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientPayloadError, ClientSession, web
from support.conditions import PATIENCE_SECONDS

from streams.broker.ports import pick_free
from streams.dev.gateway import Front, serve
from streams.dev.layout import Member


class Behind:
    """A process behind the front that tells what it got, and under whose name."""

    def __init__(self, stage: str, instance: str = "0") -> None:
        self.member = Member(stage, instance, pick_free())
        self.seen: list[str] = []
        self.arrived = asyncio.Event()
        self.left = asyncio.Event()
        self.more = asyncio.Event()
        app = web.Application()
        app.router.add_route("*", "/v1/slow", self._slow)
        app.router.add_route("*", "/v1/stream", self._stream)
        app.router.add_route("*", "/v1/torn", self._torn)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_route("*", "/{path:.*}", self._echo)
        self.runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)

    async def start(self) -> None:
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", self.member.port).start()

    async def _echo(self, request: web.Request) -> web.Response:
        self.seen.append(request.raw_path)
        body = {
            "by": self.member.name,
            "method": request.method,
            "path": request.raw_path,
            "headers": [(name.lower(), value) for name, value in request.headers.items()],
            "body": (await request.read()).hex(),
        }
        return web.json_response(body, headers={"X-Theirs": "1", "Keep-Alive": "timeout=9"})

    async def _slow(self, request: web.Request) -> web.Response:
        self.seen.append(request.raw_path)
        self.arrived.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()
        raise AssertionError

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: one\n\n")
        await self.more.wait()
        await response.write(b"data: two\n\n")
        return response

    async def _torn(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport
        request.transport.abort()
        return response

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(text="# TYPE tidegate_seen counter\ntidegate_seen_total 4\n")


@asynccontextmanager
async def fronted(*behind: Behind, up: bool = True) -> AsyncIterator[ClientSession]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    for one in behind:
        if up:
            await one.start()
    runner = await serve(Front([one.member for one in behind]), listener)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        async with ClientSession(url) as client:
            yield client
    finally:
        await runner.cleanup()
        for one in behind:
            await one.runner.cleanup()


def pair() -> tuple[Behind, Behind]:
    return Behind("ingress"), Behind("operator")


@pytest.mark.parametrize(
    "path", ["/v1/jobs", "/schemas/ids/3", "/subjects", "/mode", "/approvals/a"]
)
async def test_the_api_is_the_operators(path: str) -> None:
    async with fronted(*pair()) as client:
        rest = await (await client.get(path)).json()
    assert rest["by"] == "operator-0"


async def test_figures_come_from_analytics_alone() -> None:
    async with fronted(*pair(), Behind("analytics")) as client:
        rest = await (await client.get("/v1/analytics/top")).json()
    assert rest["by"] == "analytics-0"


async def test_without_analytics_the_answer_says_how_to_start_it() -> None:
    ingress, operator = pair()
    async with fronted(ingress, operator) as client:
        answer = await client.get("/v1/analytics/top")
        told = await answer.json(content_type=None)
    assert (answer.status, "--analytics" in told["detail"]) == (404, True)
    assert operator.seen == []


@pytest.mark.parametrize("path", ["/", "/hooks/acme/zendesk", "/v2/jobs", "/v1"])
async def test_a_path_outside_the_api_is_a_404_that_names_the_hooks(path: str) -> None:
    ingress, operator = pair()
    async with fronted(ingress, operator) as client:
        answer = await client.post(path)
        told = await answer.json(content_type=None)
    assert (answer.status, "/v1/hooks/TENANT/SOURCE" in told["detail"]) == (404, True)
    assert (ingress.seen, operator.seen) == ([], [])


async def test_method_path_headers_and_body_pass_as_they_are() -> None:
    body = bytes(range(256)) * 300
    path = "/v1/jobs/a%2Fb?x=%20y&x=2"
    async with fronted(*pair()) as client:
        sent = {"X-Ours": "Ä".encode().decode("latin-1"), "Content-Type": "application/odd"}
        answer = await client.patch(path, data=body, headers=sent)
        got = await answer.json()
    headers = dict(got["headers"])
    assert (got["method"], got["path"], bytes.fromhex(got["body"])) == ("PATCH", path, body)
    assert headers["content-type"] == "application/odd"
    assert headers["content-length"] == str(len(body))
    assert answer.headers["X-Theirs"] == "1"
    assert "x-ours" in headers


@pytest.mark.parametrize(
    "target", ["@example.com/", "http://example.com/v1/x", "*", ".example.com/"]
)
async def test_no_request_line_leads_elsewhere(target: str) -> None:
    ingress, operator = pair()
    async with fronted(ingress, operator) as client:
        url = client._base_url
        assert url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(f"GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        status = (await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)).split()[1]
        writer.close()
    assert operator.seen in ([], ["/v1/x"])
    assert (status == b"200") == bool(operator.seen)


async def test_a_request_that_is_no_http_leaves_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with fronted(*pair()) as client:
        url = client._base_url
        assert url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        status = (await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)).split()[1]
        writer.close()
    assert (status, caplog.records) == (b"400", [])


async def test_hop_by_hop_headers_stay() -> None:
    async with fronted(*pair()) as client:
        answer = await client.get("/v1/jobs", headers={"Connection": "X-Mine", "X-Mine": "1"})
        got = dict((await answer.json())["headers"])
    assert "x-mine" not in got
    assert "Keep-Alive" not in answer.headers


async def test_a_body_of_unknown_length_is_passed_on_whole() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"piece"

    async with fronted(*pair()) as client:
        got = await (await client.post("/v1/tenants/acme/jobs", data=pieces())).json()
    assert bytes.fromhex(got["body"]) == b"piecepiecepiece"


async def test_a_compressed_body_is_passed_on_as_it_is() -> None:
    sent = {"Content-Encoding": "gzip"}
    async with fronted(*pair()) as client:
        body = gzip.compress(b"piece" * 100)
        got = await (await client.post("/v1/jobs", data=body, headers=sent)).json()
    assert bytes.fromhex(got["body"]) == b"piece" * 100, "as the operator unpacks it"


async def test_events_arrive_as_they_are_sent() -> None:
    ingress, operator = pair()
    async with fronted(ingress, operator) as client, client.get("/v1/stream") as answer:
        first = await asyncio.wait_for(answer.content.readuntil(b"\n\n"), PATIENCE_SECONDS)
        operator.more.set()
        second = await asyncio.wait_for(answer.content.readuntil(b"\n\n"), PATIENCE_SECONDS)
    assert (first, second) == (b"data: one\n\n", b"data: two\n\n")


async def test_a_client_that_leaves_ends_the_request_behind() -> None:
    ingress, operator = pair()
    async with fronted(ingress, operator) as client:
        asking = asyncio.create_task(client.get("/v1/slow"))
        await asyncio.wait_for(operator.arrived.wait(), PATIENCE_SECONDS)
        asking.cancel()
        await asyncio.wait_for(operator.left.wait(), PATIENCE_SECONDS)
    assert operator.left.is_set()


async def test_half_an_answer_does_not_look_whole() -> None:
    async with fronted(*pair()) as client:
        answer = await client.get("/v1/torn")
        with pytest.raises(ClientPayloadError):
            await answer.read()


async def test_nobody_there_is_a_503_that_says_when_to_come_back() -> None:
    async with fronted(*pair(), up=False) as client:
        answer = await client.post("/v1/tenants/acme/jobs", data=b"{}")
        problem = json.loads(await answer.read())
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert answer.content_type == "application/problem+json"
    assert problem["type"] == "urn:tidegate:problem:unavailable"


async def test_a_process_that_takes_no_connection_is_passed_over() -> None:
    down, up = Behind("operator"), Behind("operator", "1")
    async with fronted(down, up, up=False) as client:
        await up.start()
        answers = [await client.post("/v1/tenants/acme/jobs", data=b"{}") for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 200]


async def test_a_process_that_dies_in_the_middle_is_a_502_and_nobody_is_asked_twice() -> None:
    second = Behind("operator", "1")
    asked: list[bytes] = []

    async def dies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"{}"))
        writer.transport.abort()

    async with fronted(second) as client:
        dying = Member("operator", "0", pick_free())
        server = await asyncio.start_server(dies, "127.0.0.1", dying.port)
        front = Front([dying, second.member])
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        runner = await serve(front, listener)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/tenants/acme/jobs"
        answer = await client.post(url, data=b"{}")
        await runner.cleanup()
        server.close()
    assert (answer.status, answer.headers["Retry-After"]) == (502, "1")
    assert (len(asked), second.seen) == (1, [])


async def test_readiness_names_who_is_missing() -> None:
    ingress, operator = pair()
    async with fronted(ingress, operator, up=False) as client:
        await operator.start()
        before = await client.get("/readyz")
        said = await before.text()
        await ingress.start()
        after = await client.get("/readyz")
        alive = await client.get("/healthz")
    assert (before.status, said) == (503, "not ready: ingress-0\n")
    assert (after.status, alive.status) == (200, 200)


async def test_metrics_of_all_on_one_page() -> None:
    ingress, operator = pair()
    async with fronted(ingress, operator, up=False) as client:
        await operator.start()
        page = await (await client.get("/metrics")).text()
    assert 'tidegate_seen_total{instance="0",stage="operator"} 4.0' in page
    assert 'tidegate_up{instance="0",stage="ingress"} 0.0' in page

"""`ctx.http` outside of a run: what it sends, and what its errors prove."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import (
    ClientError,
    ClientPayloadError,
    ClientResponseError,
    ClientTimeout,
    ServerDisconnectedError,
    web,
)
from aiohttp.test_utils import TestServer
from support.certificates import self_signed, server_tls
from yarl import URL

from streams.errors import JobError, LeaseLost, PermanentError, RetryAfter, TransientError
from streams.worker import http_answers, http_session
from streams.worker.handler.own_frames import own_traceback
from streams.worker.handler.proof_not_done import not_done
from streams.worker.http_session import Http
from streams.worker.tool_call import tool_call

TRACE = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Run:
    """A run that a test scripts."""

    def __init__(self) -> None:
        self.traceparent: str | None = TRACE
        self.left = 30.0
        self.is_over = False

    def check(self) -> None:
        if self.is_over:
            raise LeaseLost("over")

    def seconds_left(self) -> float:
        return self.left


class Service:
    """A server of the test: it answers by `answer`, and keeps what came."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[web.Request] = []
        self.answer: Handler = self.fine

    async def fine(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"ok": True})

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        return await self.answer(request)

    def says(self, status: int, **headers: str) -> None:
        async def answer(_: web.Request) -> web.StreamResponse:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return web.Response(status=status, headers=named)

        self.answer = answer


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", made.handle)
    server = TestServer(app)
    await server.start_server()
    made.url = str(server.make_url("/x"))
    yield made
    await server.close()


@pytest.fixture
def run() -> Run:
    return Run()


def closed_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{found.getsockname()[1]}/secret-path"


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


async def test_an_answer_has_its_body_once_it_is_awaited(run: Run, service: Service) -> None:
    answer = await Http(run).post(service.url, json={"n": 1})
    assert (answer.status, await answer.json()) == (200, {"ok": True})
    async with Http(run).get(service.url) as answer:
        assert await answer.content.read(3) == b'{"o'
    assert [r.headers["traceparent"] for r in service.asked] == [TRACE] * 2
    assert all("Idempotency-Key" not in r.headers for r in service.asked)


async def test_in_an_effect_a_request_that_acts_carries_its_key(run: Run, service: Service) -> None:
    with tool_call("key-1"):
        await Http(run).get(service.url)
        await Http(run).post(service.url)
        await Http(run).post(service.url, headers={"idempotency-key": "mine", "traceparent": "t"})
    sent = [r.headers.get("Idempotency-Key") for r in service.asked]
    assert sent == [None, "key-1", "mine"]
    assert service.asked[2].headers["traceparent"] == "t"


async def test_a_refused_connection_sent_nothing(run: Run) -> None:
    with pytest.raises(
        TransientError, match=r"GET http://127.0.0.1:\d+: nothing was sent"
    ) as error:
        await Http(run).get(closed_port())
    assert "secret-path" not in str(error.value)


async def test_an_unknown_host_sent_nothing(run: Run) -> None:
    with pytest.raises(TransientError, match="nothing was sent"):
        await Http(run).post("http://no-such-host.invalid/")


async def test_a_certificate_that_is_not_trusted_sent_nothing(run: Run, tmp_path: Path) -> None:
    server = TestServer(web.Application(), scheme="https")
    await server.start_server(ssl=server_tls(self_signed(tmp_path, "localhost")))
    with pytest.raises(TransientError, match="nothing was sent"):
        await Http(run).post(str(server.make_url("/")))
    await server.close()


async def test_a_host_that_does_not_take_the_connection_sent_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_session, "CONNECT_SECONDS", 0.2)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        url = f"http://127.0.0.1:{full.getsockname()[1]}/secret-path"
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        with pytest.raises(TransientError, match="nothing was sent") as error:
            await Http(run).post(url)
        assert "secret-path" not in own_traceback(error.value)
        for each in waiting:
            each.close()


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
async def test_a_connection_that_breaks_leaves_the_outcome_open(run: Run, method: str) -> None:
    connections = 0

    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(breaks, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    with pytest.raises(ServerDisconnectedError):
        await Http(run).request(method, f"http://{host}:{port}/")
    assert connections == 1
    server.close()


async def test_an_answer_that_does_not_come_leaves_the_outcome_open(
    run: Run, service: Service
) -> None:
    async def hangs(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(5)
        return web.Response()

    service.answer, run.left = hangs, 0.6
    with pytest.raises(TimeoutError):
        await Http(run).post(service.url, timeout=100)
    assert len(service.asked) == 1


async def test_without_time_or_lease_nothing_begins(run: Run, service: Service) -> None:
    run.left = 0.1
    with pytest.raises(TransientError, match="the run has no time"):
        await Http(run).post(service.url)
    run.left, run.is_over = 30, True
    with pytest.raises(LeaseLost):
        await Http(run).post(service.url)
    assert service.asked == []


async def test_without_time_a_request_proves_nothing_of_an_earlier_one(
    run: Run, service: Service
) -> None:
    with tool_call("key-1"):
        await Http(run).post(service.url)
        run.left = 0.1
        with pytest.raises(ClientError, match="no time, but another request of this effect was"):
            await Http(run).post(service.url)
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"jsn": 1},
        {"json": object()},
        {"json": nested(100_000)},
        {"headers": 7},
        {"cookies": {"a b": "1"}},
        {"data": b"", "json": 1},
    ],
    ids=["misspelt", "no JSON", "deep JSON", "headers", "cookies", "two bodies"],
)
async def test_a_request_that_cannot_be_made_is_an_error_of_the_handler(
    run: Run, service: Service, options: dict[str, Any]
) -> None:
    with pytest.raises(PermanentError, match=r"nothing was sent: .*: correct the URL and the opt"):
        await Http(run).post(service.url, **options)
    assert service.asked == []


@pytest.mark.parametrize("url", ["", "nowhere", "ftp://x/", "http://", None])
async def test_what_is_no_url_is_an_error_of_the_handler(run: Run, url: Any) -> None:
    with pytest.raises(PermanentError, match=r"nothing was sent: .*: correct the URL"):
        await Http(run).get(url)


@pytest.mark.parametrize(
    "url", ["ftp://x.test/hidden", "http:///hidden", "hidden", "http://x:y/hidden"]
)
async def test_what_is_no_url_is_not_shown(run: Run, url: str) -> None:
    with pytest.raises(PermanentError) as raised:
        await Http(run).get(url)
    told = own_traceback(raised.value)
    assert "PermanentError: GET" in told
    assert "hidden" not in told


@pytest.mark.parametrize("status", [301, 308, 404, 409, 500])
async def test_a_message_about_a_status_has_only_the_origin_of_the_url(
    run: Run, service: Service, status: int
) -> None:
    service.says(status)
    answer = await Http(run).post(f"{service.url}/hidden?key=hidden")
    with pytest.raises((ClientResponseError, PermanentError)) as raised:
        answer.raise_for_status()
    assert str(URL(service.url).origin()) in str(raised.value)
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize(
    ("status", "headers", "error", "seconds"),
    [
        (429, {"Retry_After": "7"}, RetryAfter, 7),
        (503, {"Retry_After": "7"}, RetryAfter, 7),
        (429, {}, TransientError, None),
        (401, {}, TransientError, None),
        (404, {}, PermanentError, None),
        (422, {}, PermanentError, None),
        (307, {"Location": "https://elsewhere.test/"}, PermanentError, None),
        (308, {"Location": "https://elsewhere.test/"}, PermanentError, None),
        (301, {"Location": "https://elsewhere.test/"}, ClientResponseError, None),
        (409, {}, ClientResponseError, None),
        (500, {"Retry_After": "7"}, ClientResponseError, None),
        (503, {}, ClientResponseError, None),
    ],
)
async def test_a_status_says_whether_something_was_done(
    run: Run,
    service: Service,
    status: int,
    headers: dict[str, str],
    error: type[Exception],
    seconds: float | None,
) -> None:
    service.says(status, **headers)
    answer = await Http(run).post(service.url)
    with pytest.raises(error) as raised:
        answer.raise_for_status()
    assert type(raised.value) is error
    assert getattr(raised.value, "seconds", None) == seconds


async def test_a_redirect_is_not_followed_unless_it_is_asked_for(
    run: Run, service: Service
) -> None:
    service.says(302, Location="/gone")
    answer = await Http(run).post(service.url)
    answer.raise_for_status()
    assert (answer.status, len(service.asked)) == (302, 1)

    async def leads_on(request: web.Request) -> web.StreamResponse:
        if request.path == "/gone":
            return web.Response(status=404)
        return web.Response(status=302, headers={"Location": "/gone"})

    service.answer = leads_on
    answer = await Http(run).post(service.url, allow_redirects=True)
    with pytest.raises(ClientResponseError):
        answer.raise_for_status()


async def test_after_another_request_of_the_effect_nothing_is_proved(
    run: Run, service: Service
) -> None:
    with tool_call("key-1"):
        await Http(run).post(service.url)
        with pytest.raises(ClientError, match="another request of this effect was"):
            await Http(run).post(closed_port())
        service.says(404)
        answer = await Http(run).post(service.url)
        with pytest.raises(ClientResponseError):
            answer.raise_for_status()
        with pytest.raises(ClientResponseError):
            await Http(run).post(service.url, raise_for_status=True)


async def test_a_request_may_be_told_to_check_its_answer(run: Run, service: Service) -> None:
    service.says(404)
    with tool_call("key-1"), pytest.raises(PermanentError):
        await Http(run).post(service.url, raise_for_status=True)


async def test_reading_before_it_acts_proves_as_much(run: Run, service: Service) -> None:
    with tool_call("key-1"):
        await Http(run).get(service.url)
        with pytest.raises(TransientError):
            await Http(run).post(closed_port())
        service.says(404)
        answer = await Http(run).post(service.url)
        with pytest.raises(PermanentError):
            answer.raise_for_status()


async def test_beside_a_request_that_is_under_way_nothing_is_proved(run: Run) -> None:
    with socket.socket() as full, tool_call("key-1"):
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        under_way = f"http://127.0.0.1:{full.getsockname()[1]}/"
        slow = asyncio.create_task(Http(run).post(under_way, timeout=1)._whole())
        await asyncio.sleep(0)
        with pytest.raises(ClientError, match="another request of this effect was"):
            await Http(run).post(closed_port())
        slow.cancel()
        for each in waiting:
            each.close()


async def test_what_an_effect_leaves_behind_sends_nothing_once_it_has_ended(
    run: Run, service: Service
) -> None:
    with tool_call("key-1"):
        late = Http(run).post(service.url)
    with pytest.raises(TransientError, match="nothing was sent"):
        await late
    assert service.asked == []


async def test_a_request_belongs_to_the_effect_that_awaits_it(run: Run, service: Service) -> None:
    made = Http(run).post(service.url)
    with tool_call("key-1"):
        await made
        with pytest.raises(ClientError, match="another request of this effect was"):
            await Http(run).post(closed_port())
    assert service.asked[0].headers["Idempotency-Key"] == "key-1"


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), ClientTimeout(total=5), "5"])
async def test_a_timeout_that_is_none_is_refused(run: Run, service: Service, seconds: Any) -> None:
    told = re.escape(f"nothing was sent: timeout={seconds!r}: give")
    with pytest.raises(PermanentError, match=told):
        await Http(run).post(service.url, timeout=seconds)
    assert service.asked == []


async def test_the_error_of_a_clients_middleware_is_its_own(run: Run, service: Service) -> None:
    async def signs(request: object, handler: object) -> Any:
        raise KeyError("no key")

    with pytest.raises(KeyError):
        await Http(run).post(service.url, middlewares=(signs,))
    assert service.asked == []


async def refused(run: Run, service: Service) -> None:
    await Http(run).post(closed_port())


async def turned_down(run: Run, service: Service) -> None:
    service.says(422)
    (await Http(run).post(service.url)).raise_for_status()


@pytest.mark.parametrize("fails", [refused, turned_down])
@pytest.mark.parametrize("sends_more", [False, True])
async def test_an_error_proves_nothing_once_the_effect_has_sent_more(
    run: Run, service: Service, fails: Callable[..., Awaitable[None]], sends_more: bool
) -> None:
    async def function() -> None:
        try:
            await fails(run, service)
        except JobError:
            if sends_more:
                await Http(run).post(service.url)
            raise

    with pytest.raises(JobError) as raised, tool_call("key-1"):
        await function()
    assert not_done(raised.value) is not sends_more


async def test_a_request_that_is_awaited_twice_proves_nothing_of_the_first_time(
    run: Run, service: Service
) -> None:
    with tool_call("key-1"):
        made = Http(run).post(service.url)
        await made
        run.left = 0.1
        with pytest.raises(ClientError):
            await made


class Deaf:
    """A server that reads no more than the head of a request, until it may."""

    def __init__(self, answer: bytes = b"") -> None:
        self.may_read, self.received = asyncio.Event(), asyncio.Event()
        self.size = 0
        self._answer = answer

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self._answer)
        await self.may_read.wait()
        try:
            while piece := await reader.read(65_536):
                self.size += len(piece)
        except ConnectionError:
            pass
        self.received.set()
        writer.close()


LARGE = b"x" * 20_000_000


async def test_nothing_of_a_request_is_sent_after_its_time(run: Run) -> None:
    deaf = Deaf()
    server = await asyncio.start_server(deaf.handle, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    with pytest.raises(TimeoutError):
        await Http(run).post(url, data=LARGE, timeout=0.3)
    deaf.may_read.set()
    await asyncio.wait_for(deaf.received.wait(), 5)
    assert deaf.size < len(LARGE)
    server.close()


async def test_an_answer_is_left_at_once_whatever_the_server_has_not_read(run: Run) -> None:
    deaf = Deaf(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nyes\r\n")
    server = await asyncio.start_server(deaf.handle, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with asyncio.timeout(5):
        async with Http(run).post(url, data=LARGE) as answer:
            assert await answer.content.read(3) == b"yes"
    deaf.may_read.set()
    await asyncio.wait_for(deaf.received.wait(), 5)
    server.close()


async def test_a_body_without_an_end_does_not_fill_the_memory(
    run: Run, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_answers, "_MOST_BYTES", 1_000)

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"x" * int(request.query["size"]))

    service.answer = answer
    assert len(await (await Http(run).get(f"{service.url}?size=1000")).read()) == 1_000
    with pytest.raises(ClientPayloadError, match="more than 1,000 bytes: read it in pieces"):
        await Http(run).post(f"{service.url}?size=1001")
    async with Http(run).get(f"{service.url}?size=1001") as whole:
        assert len(await whole.content.read()) == 1_001


async def test_names_whose_servers_hang_hold_up_no_other(
    run: Run, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_fail, begun, found = threading.Event(), asyncio.Event(), socket.getaddrinfo
    loop = asyncio.get_running_loop()

    def looked_up(host: str, *args: Any, **options: Any) -> Any:
        if host != "hangs.test":
            return found(host, *args, **options)
        loop.call_soon_threadsafe(begun.set)
        may_fail.wait(30)
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    hang = [asyncio.create_task(Http(run).get("http://hangs.test/")._whole()) for _ in range(50)]
    await begun.wait()
    answer = await Http(run).get(f"http://localhost:{URL(service.url).port}/", timeout=5)
    assert answer.status == 200
    may_fail.set()
    for failed in asyncio.as_completed(hang):
        with pytest.raises(TransientError, match="nothing was sent"):
            await failed

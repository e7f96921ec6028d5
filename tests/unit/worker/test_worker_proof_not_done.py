"""Only the error of a refused connect proves that nothing was done; one that followed it does not.

The installed clients are called for real, against a loopback port on which nobody listens; the
others are rebuilt in `refusing_clients.py`.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import smtplib
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import requests
import urllib3
import uvloop
from requests.adapters import HTTPAdapter
from support.refusing_clients import ANYIO, BOTOCORE, HTTPX, STRIPE, TENACITY, Call

from streams.worker.handler.proof_not_done import not_done


@pytest.fixture(scope="module")
def refused() -> int:
    """A port on which nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def error_of(call: Call) -> BaseException:
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("the call raised nothing")


def url(port: int, host: str = "127.0.0.1") -> str:
    return f"http://{host}:{port}/"


async def by_aiohttp(method: str, to: str, **options: Any) -> None:
    async with aiohttp.ClientSession() as session, session.request(method, to, **options) as answer:
        await answer.read()


CLIENTS: dict[str, Callable[[int], Any]] = {
    "requests": lambda port: requests.post(url(port), data=b"x", timeout=5),
    "requests localhost": lambda port: requests.post(url(port, "localhost"), timeout=5),
    "urllib3": lambda port: urllib3.PoolManager().request("POST", url(port), body=b"x"),
    "urllib3 once": lambda port: urllib3.request("POST", url(port), retries=False),
    "urllib": lambda port: urllib.request.urlopen(url(port), b"x", 5),
    "http.client": lambda port: http.client.HTTPConnection("127.0.0.1", port).request("POST", "/"),
    "smtplib": lambda port: smtplib.SMTP("127.0.0.1", port, timeout=5),
    "socket": lambda port: socket.create_connection(("127.0.0.1", port), 5),
    "aiohttp": lambda port: asyncio.run(by_aiohttp("POST", url(port))),
    "aiohttp PUT": lambda port: asyncio.run(by_aiohttp("PUT", url(port, "localhost"))),
    "aiohttp uvloop": lambda port: uvloop.run(by_aiohttp("POST", url(port))),
    "asyncio": lambda port: asyncio.run(_open(port)),
    "uvloop": lambda port: uvloop.run(_open(port)),
    "httpx": lambda port: HTTPX["send"](connecting(port)),
    "httpx async": lambda port: HTTPX["send"](lambda: ANYIO["connect_tcp"]([connecting(port)])),
    "httpx async, two addresses": lambda port: HTTPX["send"](
        lambda: ANYIO["connect_tcp"]([connecting(port), connecting(port)])
    ),
    "stripe": lambda port: STRIPE["_request_with_retries_internal"](
        lambda: requests.post(url(port), timeout=5)
    ),
    "stripe with httpx": lambda port: STRIPE["_request_with_retries_internal"](
        lambda: HTTPX["send"](connecting(port))
    ),
    "botocore": lambda port: BOTOCORE["_send_request"](
        lambda: urllib3.request("POST", url(port), retries=False)
    ),
}


async def _open(port: int) -> None:
    await asyncio.open_connection("localhost", port)


def connecting(port: int) -> Call:
    return lambda: socket.create_connection(("127.0.0.1", port), 5)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_refused_connection_is_recognised(client: str, refused: int) -> None:
    error = error_of(lambda: CLIENTS[client](refused))
    assert not_done(error), repr(error)


def test_the_documentation_promises_what_is_tested_here() -> None:
    page = (Path(__file__).parents[3] / "docs/handlers.md").read_text()
    text = page.partition("## When nothing was done")[2]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    promised = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)} - {"boto3"}
    assert promised == {name.partition(" ")[0] for name in CLIENTS} - {"uvloop"}


async def test_it_is_recognised_in_a_thread_and_in_a_task(refused: int) -> None:
    for awaitable in (
        asyncio.to_thread(lambda: requests.post(url(refused), timeout=5)),
        by_aiohttp("POST", url(refused)),
        asyncio.create_task(by_aiohttp("POST", url(refused))),
    ):
        with pytest.raises((requests.ConnectionError, aiohttp.ClientConnectorError)) as raised:
            await awaitable
        assert not_done(raised.value)


def test_all_addresses_that_asyncio_tried_were_refused() -> None:
    both = "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), [Errno 111] x"
    one = "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno 110] timed out"
    assert not_done(OSError(both))
    assert not not_done(OSError(one))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_call_that_follows_one_of_unknown_outcome_proves_nothing(
    client: str, refused: int
) -> None:
    """The function's own second attempt, after a first that may have reached the service."""

    def twice() -> None:
        try:
            raise TimeoutError("the first attempt")
        except TimeoutError:
            CLIENTS[client](refused)

    assert not not_done(error_of(twice))


async def test_that_holds_in_coroutines_as_well(refused: int) -> None:
    async def twice() -> None:
        try:
            raise TimeoutError("the first attempt")
        except TimeoutError:
            await by_aiohttp("POST", url(refused))

    with pytest.raises(aiohttp.ClientConnectorError) as raised:
        await twice()
    assert not not_done(raised.value)


def test_what_was_handled_before_the_call_began_is_not_of_the_call(refused: int) -> None:
    before = TimeoutError("of another effect")

    def call() -> None:
        try:
            raise before
        except TimeoutError:
            requests.post(url(refused), timeout=5)

    error = error_of(call)
    error.__traceback__ = None
    assert not_done(error, (), before)
    assert not not_done(error)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_refused_connection_that_was_caught_says_nothing_of_the_next_call(
    client: str, refused: int
) -> None:
    def elsewhere() -> None:
        try:
            CLIENTS[client](refused)
        except Exception:
            raise TimeoutError("the second service") from None

    def after() -> None:
        try:
            CLIENTS[client](refused)
        except Exception as error:
            raise RuntimeError("could not fall back") from error

    assert not not_done(error_of(elsewhere))
    assert not not_done(error_of(after))


def redirect(to: str) -> bytes:
    return f"HTTP/1.1 303 See Other\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()


BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
NOTHING = b""
"""The connection is closed without an answer."""


class Service:
    """Takes one request, for which the effect may have happened, and answers it.

    When the answer is read nobody listens on its port any more.
    """

    def __init__(self, answer: bytes) -> None:
        self.taken = 0
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Service:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(10)

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        self._listener.close()
        with connection:
            received = b""
            while b"\r\n\r\n" not in received:
                received += connection.recv(65_536)
            self.taken += 1
            connection.sendall(self._answer)


REDIRECTED: dict[str, Callable[[str], Any]] = {
    "requests": lambda to: requests.post(to, data=b"x", timeout=5),
    "urllib3": lambda to: urllib3.PoolManager().request("POST", to, body=b"x"),
    "urllib": lambda to: urllib.request.urlopen(to, b"x", 5),
    "aiohttp": lambda to: asyncio.run(by_aiohttp("POST", to, data=b"x")),
    "aiohttp uvloop": lambda to: uvloop.run(by_aiohttp("POST", to, data=b"x")),
}


@pytest.mark.parametrize("client", REDIRECTED)
def test_a_redirect_was_answered_by_a_service_that_may_have_done_it(
    client: str, refused: int
) -> None:
    with Service(redirect(url(refused))) as service:
        error = error_of(lambda: REDIRECTED[client](url(service.port)))
    assert service.taken == 1
    assert "refused" in str(error).lower() or "connect" in str(error).lower()
    assert not not_done(error), repr(error)


def retrying() -> urllib3.Retry:
    return urllib3.Retry(
        3, status_forcelist=[503], allowed_methods=None, backoff_factor=0, raise_on_status=False
    )


def by_session(to: str) -> None:
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=retrying()))
        session.post(to, data=b"x", timeout=5)


RETRYING: dict[str, Callable[[str], Any]] = {
    "requests": by_session,
    "urllib3": lambda to: urllib3.PoolManager().request("POST", to, retries=retrying()),
}


@pytest.mark.parametrize("first", [BUSY, NOTHING])
@pytest.mark.parametrize("client", RETRYING)
def test_a_retry_inside_the_client_proves_nothing_of_the_attempt_before(
    client: str, first: bytes
) -> None:
    with Service(first) as service:
        error = error_of(lambda: RETRYING[client](url(service.port)))
    assert service.taken == 1
    assert "refused" in str(error)
    assert not not_done(error), repr(error)


@pytest.mark.parametrize("client", RETRYING)
def test_retries_that_were_all_refused_did_nothing(client: str, refused: int) -> None:
    assert not_done(error_of(lambda: RETRYING[client](url(refused))))


def test_a_put_that_aiohttp_repeats_on_a_dropped_connection_proves_nothing() -> None:
    with Service(NOTHING) as service:
        error = error_of(lambda: asyncio.run(by_aiohttp("PUT", url(service.port), data=b"x")))
    assert service.taken == 1
    assert isinstance(error, aiohttp.ClientConnectorError)
    assert not not_done(error)


def test_a_middleware_of_aiohttp_may_have_called_before(refused: int) -> None:
    async def again(request: Any, handler: Any) -> Any:
        return await handler(request)

    error = error_of(lambda: asyncio.run(by_aiohttp("POST", url(refused), middlewares=(again,))))
    assert not not_done(error)


def timed_out() -> None:
    raise TimeoutError("sent, and no answer")


ROUNDS: dict[str, Callable[[Call], Any]] = {
    "httpx redirect": lambda last: HTTPX["send"](lambda: "303 See Other", last),
    "stripe": lambda last: STRIPE["_request_with_retries_internal"](timed_out, last),
    "botocore": lambda last: BOTOCORE["_send_request"](timed_out, lambda: refused_by_urllib3(last)),
    "tenacity": lambda last: TENACITY["call"](timed_out, last, reraise=False),
    "tenacity reraises": lambda last: TENACITY["call"](timed_out, last, reraise=True),
}


def refused_by_urllib3(connect: Call) -> None:
    """The error that urllib3 makes of a refused connect."""
    try:
        connect()
    except OSError as error:
        raise urllib3.exceptions.NewConnectionError(None, "refused") from error  # type: ignore[arg-type]


@pytest.mark.parametrize("client", ROUNDS)
def test_a_later_round_of_a_clients_loop_proves_nothing(client: str, refused: int) -> None:
    error = error_of(lambda: ROUNDS[client](connecting(refused)))
    assert not not_done(error), repr(error)


@pytest.mark.parametrize("client", REDIRECTED)
def test_a_connection_that_stood_and_broke_proves_nothing(client: str) -> None:
    with Service(NOTHING) as service:
        error = error_of(lambda: REDIRECTED[client](url(service.port)))
    assert service.taken == 1
    assert not not_done(error), repr(error)


def test_a_wrapper_of_another_error_proves_nothing() -> None:
    reset_error = ConnectionResetError(104, "reset")
    for error in (
        urllib.error.URLError(reset_error),
        urllib3.exceptions.MaxRetryError(None, "/", reset_error),  # type: ignore[arg-type]
        requests.exceptions.ConnectionError(),
        OSError("All connection attempts failed"),
    ):
        assert not not_done(error)
    plain = OSError("something")
    plain.__cause__ = ConnectionRefusedError(111, "refused")
    assert not not_done(plain)


def test_a_chain_that_never_ends_is_given_up() -> None:
    endless = urllib.error.URLError("")
    endless.reason = endless
    assert not not_done(endless)

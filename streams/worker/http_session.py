"""`ctx.http`: requests of handlers that tell what became of them.

It lies outside of `handler/`, because its errors are those of a tool's call: the ledger reads a
`JobError` as "nothing was done", which holds here.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from aiohttp import (
    ClientConnectionError,
    ClientError,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    InvalidURL,
    NonHttpUrlClientError,
    TCPConnector,
)
from multidict import CIMultiDict
from yarl import URL

from streams.errors import JobError, PermanentError, TransientError
from streams.worker.http_answers import Answer
from streams.worker.http_connections import SAFE, Sent, Sockets, watched
from streams.worker.http_names import Names
from streams.worker.tool_call import present_call, proof

CONNECT_SECONDS = 10.0
_LEAST_SECONDS = 0.5
"""With less time left, a request is not begun: its outcome would be unknown."""


_WRONG = (TypeError, ValueError, NonHttpUrlClientError)
_KNOWN = (ClientError, OSError, TypeError, ValueError)
"""What aiohttp says of a URL or an option that is wrong, and of any request that it cannot make."""


_SHOW_URLS = (InvalidURL, NonHttpUrlClientError, TimeoutError)
"""Their messages have the whole URL, which may be secret."""


class RunOfRequests(Protocol):
    """What requests need of the run that makes them."""

    @property
    def traceparent(self) -> str | None: ...

    def check(self) -> None: ...

    def seconds_left(self) -> float: ...


class Http:
    """Requests of one run, each on a connection of its own.

    A kept connection may be closed by the server while a request is under way on it, and nobody
    then knows whether that was done.

    `await` a request for an answer whose body was read, or use `async with` to read the body in
    pieces. The options are those of `aiohttp.ClientSession.request`. Redirects are not followed
    unless `allow_redirects=True` says so. `timeout` are the seconds for all of it, and a request
    never takes longer than the run may.

    In an effect's function, a request that may do something carries the effect's `Idempotency-Key`.
    Every request carries `traceparent`. None is repeated. Its connection ends
    with it.

    Raises:
        TransientError: nothing was sent, because there was no connection; in an effect only if no
            other request of its function was sent or is under way, or is before the effect ends.
        PermanentError: the URL is none, or an option is wrong; nothing was sent.
        aiohttp.ClientError, TimeoutError: something was sent, so the outcome is unknown.
    """

    def __init__(self, run: RunOfRequests) -> None:
        self._run = run

    def get(self, url: str | URL, **options: Any) -> Request:
        return self.request("GET", url, **options)

    def post(self, url: str | URL, **options: Any) -> Request:
        return self.request("POST", url, **options)

    def put(self, url: str | URL, **options: Any) -> Request:
        return self.request("PUT", url, **options)

    def patch(self, url: str | URL, **options: Any) -> Request:
        return self.request("PATCH", url, **options)

    def delete(self, url: str | URL, **options: Any) -> Request:
        return self.request("DELETE", url, **options)

    def request(
        self, method: str, url: str | URL, *, timeout: float | None = None, **options: Any
    ) -> Request:
        """A request of any method; see the class."""
        return Request(self._run, method.upper(), url, timeout, options)


class Request:
    """One request: await it, or enter it."""

    def __init__(
        self,
        run: RunOfRequests,
        method: str,
        url: str | URL,
        timeout: float | None,
        options: dict[str, Any],
    ) -> None:
        self._run = run
        self._method = method
        self._url = url
        self._timeout = timeout
        self._options = options
        self._sent = Sent()
        self._call = present_call()

    def __await__(self) -> Generator[Any, None, Answer]:
        return self._whole().__await__()

    async def _whole(self) -> Answer:
        async with self as answer:
            await answer.read()
            return answer

    async def __aenter__(self) -> Answer:
        self._run.check()
        self._call = self._call or present_call()  # it may be made before the call that awaits it
        self._sockets = Sockets()
        self._session = ClientSession(
            connector=TCPConnector(
                resolver=Names(), force_close=True, socket_factory=self._sockets
            ),
            cookie_jar=DummyCookieJar(),
            timeout=self._limits(),
            response_class=Answer,
            trace_configs=[watched(self._sent, self._call, self._method)],
        )
        try:
            return await self._answer()
        except BaseException:
            await self._close()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def _close(self) -> None:
        self._sockets.let_go()
        await self._session.close()

    def _limits(self) -> ClientTimeout:
        left = self._run.seconds_left()
        if left < _LEAST_SECONDS:
            raise self._proof(TransientError, "the run has no time")
        wanted: object = left if self._timeout is None else self._timeout
        if not isinstance(wanted, int | float) or not wanted > 0:
            # aiohttp takes 0 and NaN for no limit. What is no number may be its `ClientTimeout`.
            raise self._proof(
                PermanentError, f"timeout={wanted!r}: give more than 0 s, as a number"
            )
        total = min(wanted, left)
        return ClientTimeout(total=total, connect=min(CONNECT_SECONDS, total))

    async def _answer(self) -> Answer:
        answer, checked = await self._asked()
        answer.is_alone = self._is_alone
        if checked:  # not by aiohttp, which does not know of other requests
            answer.raise_for_status()
        return answer

    async def _asked(self) -> tuple[Answer, bool]:
        """The answer, and whether its status is to be checked."""
        try:
            options = {"allow_redirects": False, **self._options, "headers": self._headers()}
            checked = bool(options.pop("raise_for_status", False))
            answer = await self._session.request(self._method, self._url, **options)
        except Exception as error:
            if self._sent.connections or self._is_of_a_middleware(error):
                raise
            self._uncount()
            raise self._not_sent(error) from (None if isinstance(error, _SHOW_URLS) else error)
        assert isinstance(answer, Answer)  # noqa: S101
        return answer, checked

    def _is_alone(self) -> bool:
        """Whether no other request of the effect may have done something, or may do it yet."""
        return self._call is None or self._call.sent == self._sent.counted

    def _uncount(self) -> None:
        """Nothing was sent, since there was no connection."""
        if self._call is not None:
            self._call.sent -= self._sent.counted
        self._sent.counted = 0

    def _not_sent(self, error: BaseException) -> Exception:
        """The error for a request without a connection."""
        why = type(error).__name__
        wrong = isinstance(error, _WRONG) or not isinstance(error, ClientError)
        if wrong and not isinstance(error, OSError):  # a certificate's error is of both kinds
            why = f"{why}: correct the URL and the options of the request"
            return self._proof(PermanentError, why)
        return self._proof(TransientError, why)

    def _is_of_a_middleware(self, error: Exception) -> bool:
        """Whether an error may be of a client middleware that the handler gives as an option."""
        return bool(self._options.get("middlewares")) and not isinstance(error, _KNOWN)

    def _proof(self, kind: type[JobError], why: str) -> Exception:
        """The error that says that nothing was sent; of another kind, if that proves nothing."""
        told = f"{self._told()}: nothing was sent: {why}"
        if self._is_alone() and not self._sent.connections:
            return proof(kind(told))
        return ClientConnectionError(f"{told}, but another request of this effect was")

    def _told(self) -> str:
        """The request without what may be secret in its URL."""
        try:
            return f"{self._method} {URL(self._url).origin()}"
        except (ValueError, TypeError):
            return self._method

    def _headers(self) -> CIMultiDict[str]:
        headers = CIMultiDict(self._options.get("headers") or {})
        trace = self._run.traceparent
        if trace is not None:
            headers.setdefault("traceparent", trace)
        if self._call is not None and self._method not in SAFE:
            headers.setdefault("Idempotency-Key", self._call.idempotency_key)
        return headers

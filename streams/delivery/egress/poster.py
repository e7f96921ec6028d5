"""Sends one request to a customer's endpoint and tells how it ended.

aiohttp repeats no request, because POST is not idempotent. Tidegate repeats a request once, at once
and on a new connection, if the one that it reused broke before any byte of an answer. Receivers
close idle connections whenever they like (RFC 9112, section 9.3.1), and `webhook-id` tells them
what they have seen. Any other failure is reported.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from io import BytesIO
from typing import Self

from aiohttp import (
    ClientConnectionError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
)
from multidict import CIMultiDict
from yarl import URL

from streams.delivery.egress.connector import DIAL, CheckedConnector, Dial
from streams.delivery.egress.excerpt import charset_of, excerpt
from streams.delivery.egress.failures import REFUSED, failure, refused_by_proxy
from streams.delivery.egress.guard import parse_target
from streams.delivery.egress.host_slots import HostSlots
from streams.delivery.egress.lookup import Resolve, system_lookup
from streams.delivery.egress.policy import EgressPolicy
from streams.delivery.egress.post import ErrorClass, Outcome, Post, check_headers
from streams.delivery.egress.retry_after import retry_after_seconds
from streams.errors import ConfigError, EgressDenied

MOST_READ = 64 * 1024
"""Bytes of an answer that are read; the connection of a longer one is closed."""

_READ_AHEAD = 16 * 1024
_LONGEST_LINE = 8_190
_MOST_FIELDS = 100
_LARGEST_AT_ONCE = 1024 * 1024
"""aiohttp writes a larger body in pieces only if it comes as a stream."""

_KNOWN_URLS = 4_096
_NO_TIMEOUT = ClientTimeout(total=None)
_HEADERS = {"User-Agent": "Tidegate", "Accept": "*/*", "Accept-Encoding": "identity"}


class Poster:
    """Sends requests within a policy; an asynchronous context manager of one event loop."""

    def __init__(self, policy: EgressPolicy, resolve: Resolve = system_lookup) -> None:
        self._policy = policy
        self._resolve = resolve
        self._slots = HostSlots(policy.connections_per_host)
        self._target = lru_cache(_KNOWN_URLS)(lambda url: parse_target(url, policy))

    async def __aenter__(self) -> Self:
        """Open the session.

        Raises:
            ConfigError: the policy's `ca_file` cannot be used.
        """
        connector = CheckedConnector(self._policy, self._resolve, trust(self._policy))
        self._session = ClientSession(
            connector=connector,
            headers=_HEADERS,
            skip_auto_headers={"Content-Type"},
            cookie_jar=DummyCookieJar(),
            timeout=_NO_TIMEOUT,
            auto_decompress=False,
            trust_env=False,
            proxy=self._policy.proxy,
            read_bufsize=_READ_AHEAD,
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
            max_headers=_MOST_FIELDS,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    @asynccontextmanager
    async def turn(self, url: str, tenant_id: str, endpoint_id: str) -> AsyncIterator[None]:
        """Hold one of the connections to the URL's host, for which tenants take turns."""
        try:
            host = self._target(url).raw_host or ""
        except EgressDenied:
            yield  # `post` refuses it
            return
        async with self._slots.of(host, tenant_id, endpoint_id):
            yield

    async def post(self, post: Post, redact: Collection[str] = ()) -> Outcome:
        """Send one request, and never raise for what receiver or network do.

        Wait for its `turn` first. Texts of `redact` (header values and signing secrets that were
        sent) are replaced in the excerpt. A status counts once its head is complete, because the
        receiver has then decided: a body that hangs or breaks changes nothing but `detail`.
        Cancellation passes, and closes the connection.
        """
        try:
            target = self._target(post.url)
            check_headers(post.headers)
        except EgressDenied as error:
            return Outcome(None, "denied", str(error), None, 0)
        return await _Exchange(self._session, post, target).run(redact)


class _Exchange:
    """One request on its connection."""

    def __init__(self, session: ClientSession, post: Post, target: URL) -> None:
        self._session = session
        self._post = post
        self._target = target
        self._host = target.raw_host or ""
        self._dial = Dial(post.tenant_id, self._waiting)
        self._waited = 0.0
        self._response: ClientResponse | None = None
        self._body = bytearray()

    async def run(self, redact: Collection[str]) -> Outcome:
        loop = asyncio.get_running_loop()
        began = loop.time()
        broken: tuple[ErrorClass, str] | None = None
        try:
            async with asyncio.timeout(self._post.timeout_seconds) as self._limit:
                await self._send_and_read()
        except Exception as error:
            late = loop.time() - (self._limit.when() or loop.time())
            broken = failure(error, self._dial, self._host, late)
        finally:
            if self._response is not None:
                self._response.close()  # it has no effect if the answer was read to its end
        duration = round((loop.time() - began - self._waited) * 1000)
        if self._response is None:
            kind, detail = broken or failure(TimeoutError(), self._dial, self._host)
            return Outcome(None, kind, detail, self._dial.address, duration)
        if self._refused(self._response):
            kind, detail = refused_by_proxy(self._host)
            return Outcome(None, kind, detail, self._dial.address, duration)
        return self._answered(self._response, broken is None, duration, redact)

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Let the request's time stand still."""
        began, until = asyncio.get_running_loop().time(), self._limit.when()
        if until is None or self._limit.expired():
            yield
            return
        self._limit.reschedule(None)
        try:
            yield
        finally:
            waited = asyncio.get_running_loop().time() - began
            self._waited += waited
            self._limit.reschedule(until + waited)

    async def _send_and_read(self) -> None:
        response = self._response = await self._answer()
        while len(self._body) < MOST_READ and not response.content.at_eof():
            self._body += await response.content.read(MOST_READ - len(self._body))

    async def _answer(self) -> ClientResponse:
        try:
            return await self._send()
        except ClientConnectionError:
            if not self._dial.was_stale:
                raise
        self._dial = Dial(self._post.tenant_id, self._waiting, anew=True)
        return await self._send()

    async def _send(self) -> ClientResponse:
        DIAL.set(self._dial)
        body = self._post.body
        return await self._session.post(
            self._target,
            data=body if len(body) <= _LARGEST_AT_ONCE else BytesIO(body),
            headers=CIMultiDict(self._post.headers),
            allow_redirects=False,
        )

    def _refused(self, response: ClientResponse) -> bool:
        """Whether the answer is the proxy's own; to an https URL the receiver alone answers."""
        proxied = self._dial.proxied and self._target.scheme == "http"
        return proxied and response.status == REFUSED

    def _answered(
        self,
        response: ClientResponse,
        whole: bool,
        duration_ms: int,
        redact: Collection[str],
    ) -> Outcome:
        error: ErrorClass | None = None
        detail = f"{self._host} answered {response.status}"
        if 300 <= response.status < 400:
            error, detail = "redirect", f"{detail}: redirects are not followed, set the new URL"
        elif not whole:
            detail = f"{detail}, but its body did not end"
        told = response.headers.get("Retry-After"), response.headers.get("Date")
        retry_after = retry_after_seconds(*told)
        return Outcome(
            response.status,
            error,
            detail,
            self._dial.address,
            duration_ms,
            retry_after,
            _excerpt(response, self._body, redact),
        )


def _excerpt(response: ClientResponse, body: bytearray, redact: Collection[str]) -> str:
    if not body:
        return ""
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if coding != "identity":
        return f"({len(body)} encoded bytes)"
    # Not `response.charset`: the header may break the parser behind it.
    charset = charset_of(response.headers.get("Content-Type", ""))
    return excerpt(bytes(body), charset, redact)


def trust(policy: EgressPolicy) -> ssl.SSLContext:
    """Return whom outgoing requests trust: the system's authorities, and those of `ca_file`.

    Raises:
        ConfigError: `ca_file` cannot be used.
    """
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if policy.ca_file is not None:
        try:
            context.load_verify_locations(policy.ca_file)
        except OSError as error:  # ssl.SSLError is one
            raise ConfigError(
                f"{policy.ca_file} is no file of certificates in PEM form: correct the setting"
            ) from error
    return context

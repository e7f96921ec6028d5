"""Whatever is sent, signed or not: never a 500, never a traceback, and the next one is served."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Iterator

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ingress_app import Edge, running
from support.webhooks import SECRET, signed, source, zendesk_signed

SETTINGS = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
MAPPING = {
    "event_type": "join('.', [kind, a])",
    "dedup_key": "[id, max(items[].n)]",
    "subject": "sum(a) || length(subject)",
    "attributes": {"x": "*.*", "y": "sort_by(a, &b)"},
}


@pytest.fixture(scope="module")
def edge() -> Iterator[Edge]:
    """An ingress in a thread of its own, for tests without an event loop."""
    loop, started = asyncio.new_event_loop(), threading.Event()
    found: list[Edge] = []
    over = asyncio.Event()

    async def serve() -> None:
        async with running(keepalive_seconds=2.0) as here:
            here.sources.table.apply(*source("acme", "own", "hmac-sha256", mapping=MAPPING))
            here.sources.table.apply(*source("acme", "github", "github"))
            found.append(here)
            started.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert started.wait(10)
    yield found[0]
    loop.call_soon_threadsafe(over.set)
    thread.join()
    loop.close()


def exchange(edge: Edge, raw: bytes) -> bytes:
    """All that is answered until the connection is closed, within seconds."""
    answer = b""
    with socket.create_connection(("127.0.0.1", edge.port), timeout=30) as connection:
        try:
            connection.sendall(raw)
            while piece := connection.recv(65_536):
                answer += piece
        except ConnectionError:  # closed in our face, which is an answer as well
            pass
    return answer


def request(path: bytes, headers: list[tuple[bytes, bytes]], body: bytes) -> bytes:
    length = (b"Content-Length", b"%d" % len(body))
    lines = b"".join(b"%b: %b\r\n" % each for each in [*headers, length])
    return b"POST %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%b\r\n%b" % (path, lines, body)


def statuses(answer: bytes) -> set[int]:
    assert b"Traceback" not in answer
    return {int(code) for code in re.findall(rb"HTTP/1\.[01] (\d{3}) ", answer)}


def _spoilt(body: bytes, at: int, junk: bytes) -> bytes:
    return body[:at] + junk + body[at:]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(
                [
                    "id",
                    "type",
                    "kind",
                    "a",
                    "items",
                    "n",
                    "subject",
                    "data",
                    "detail",
                    "action",
                    "time",
                ]
            ),
            inner,
        )
    ),
)
JSON = VALUES.map(orjson.dumps)
BODIES = (
    st.binary()
    | JSON
    | st.builds(_spoilt, JSON, st.integers(0), st.binary())
    | st.integers(1, 50_000).map(lambda depth: b"[" * depth)
    | st.integers(1, 50_000).map(lambda digits: b'{"id":' + b"9" * digits + b"}")
)
TYPES = st.sampled_from(
    [
        b"application/json",
        b"text/plain",
        b"application/x-www-form-urlencoded",
        b"",
        b"/",
        b";;=",
        b"application/json; charset=utf-16",
        b"multipart/mixed",
        b"\xff+json",
    ]
)


@pytest.mark.long
@pytest.mark.parametrize("name", ["shop", "own", "zendesk", "github"])
@SETTINGS
@given(body=BODIES, type_=TYPES)
def test_whatever_a_signed_body_holds_it_is_stored_put_aside_or_refused(
    edge: Edge, name: str, body: bytes, type_: bytes
) -> None:
    headers = {
        **signed(body, SECRET),
        **zendesk_signed(body),
        "X-Hub-Signature-256": f"sha256={signed(body)['X-Signature']}",
        "X-GitHub-Event": "push",
    }
    lines = [(key.encode(), value.encode()) for key, value in headers.items()]
    answer = exchange(
        edge, request(b"/v1/hooks/acme/" + name.encode(), [*lines, (b"Content-Type", type_)], body)
    )
    assert statuses(answer) <= {200, 202, 400, 415}
    assert statuses(answer)


NAMES = st.sampled_from(
    [
        b"X-Signature",
        b"X-Zendesk-Webhook-Signature",
        b"X-Zendesk-Webhook-Signature-Timestamp",
        b"X-Hub-Signature-256",
        b"X-GitHub-Event",
        b"Content-Type",
        b"Content-Encoding",
        b"Expect",
        b"Transfer-Encoding",
        b"X-Request-Id",
        b"traceparent",
        b"X-Forwarded-Proto",
        b"Host",
        b"Connection",
        b"Upgrade",
        b"Content-Length",
        b"Cookie",
        b"Range",
        b"Trailer",
        b"TE",
    ]
) | st.binary(min_size=1, max_size=20)
HEADERS = st.lists(st.tuples(NAMES, st.binary(max_size=60) | TYPES), max_size=12)


@SETTINGS
@given(
    headers=HEADERS,
    body=BODIES,
    path=st.sampled_from([b"acme/shop", b"acme/zendesk", b"acme/github", b"no/body"])
    | st.binary(max_size=30),
    sign=st.booleans(),
)
def test_whatever_the_headers_hold_it_is_never_a_500(
    edge: Edge, headers: list[tuple[bytes, bytes]], body: bytes, path: bytes, sign: bool
) -> None:
    more = [(b"X-Signature", signed(body)["X-Signature"].encode())] if sign else []
    answer = exchange(edge, request(b"/v1/hooks/" + path, [*more, *headers], body))
    assert not {code for code in statuses(answer) if code >= 500}


@SETTINGS
@given(raw=st.binary(max_size=2_000).map(lambda junk: b"x" + junk + b"\r\n\r\n"))
def test_whatever_comes_that_is_no_http_is_never_a_500(edge: Edge, raw: bytes) -> None:
    assert statuses(exchange(edge, raw)) <= {400, 404, 405, 414, 431}


def test_after_all_that_an_honest_delivery_is_taken(edge: Edge) -> None:
    body = b'{"id":"honest"}'
    lines = [(key.encode(), value.encode()) for key, value in signed(body).items()]
    assert statuses(exchange(edge, request(b"/v1/hooks/acme/shop", lines, body))) == {202}

"""What hostile bytes get: a clear 4xx or a closed connection, soon, and nothing of our inside."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.ingress_app import Edge, running
from support.raw_http import (
    BODY,
    CHUNKED,
    CLOSE,
    HOOK,
    LENGTH,
    SIGNED,
    WHOLE,
    exchange,
    problem,
    statuses,
)
from support.webhooks import signed

from streams.serde.codec import REJECTION


@pytest.fixture
async def edge() -> AsyncIterator[Edge]:
    async with running(keepalive_seconds=0.3) as found:
        yield found


MALFORMED = {
    "a length given twice": HOOK + LENGTH + LENGTH + SIGNED + b"\r\n" + BODY,
    "two lengths": HOOK + LENGTH + b"Content-Length: 5\r\n" + SIGNED + b"\r\n" + BODY,
    "a list of lengths": HOOK + b"Content-Length: 11, 11\r\n" + SIGNED + b"\r\n" + BODY,
    "a negative length": HOOK + b"Content-Length: -1\r\n\r\n",
    "a signed length": HOOK + b"Content-Length: +11\r\n" + SIGNED + b"\r\n" + BODY,
    "a length of 5,000 digits": HOOK + b"Content-Length: " + b"0" * 5_000 + b"11\r\n\r\n" + BODY,
    "a length past 64 bits": HOOK + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "length and chunks": HOOK + LENGTH + CHUNKED + SIGNED + b"\r\n0\r\n\r\n",
    "chunked twice": HOOK + CHUNKED + CHUNKED + SIGNED + b"\r\n0\r\n\r\n",
    "an unknown transfer coding": HOOK + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "two hosts": HOOK + b"Host: y\r\n" + LENGTH + SIGNED + b"\r\n" + BODY,
    "no host": WHOLE.replace(b"Host: x\r\n", b""),
    "a broken chunk": HOOK + CHUNKED + SIGNED + b"\r\nzz\r\n",
    "a folded header": HOOK + LENGTH + SIGNED + b"X-A: a\r\n b\r\n\r\n" + BODY,
    "a space before the colon": HOOK + b"X-A : a\r\n\r\n",
    "a zero byte": HOOK + b"X-A: a\0b\r\n\r\n",
    "bare line feeds": WHOLE.replace(b"\r\n", b"\n"),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no HTTP": b"\xff\xfe\xfd\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "an unknown method": b"FOO / HTTP/1.1\r\nHost: x\r\n\r\n",
    "an unknown version": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    "no URL": b"POST http://[ HTTP/1.1\r\nHost: x\r\n\r\n",
    "junk behind a request": WHOLE + b"\0\0\0\r\n\r\n",
}


@pytest.mark.parametrize("case", MALFORMED)
async def test_malformed_http_is_a_400_and_a_closed_connection(edge: Edge, case: str) -> None:
    answer = await exchange(edge, MALFORMED[case])
    assert problem(answer) == (400, "malformed-request")
    assert edge.log.records == []


TOO_LARGE = {
    "a long header": (431, HOOK + b"X-A: " + b"a" * 9_000 + b"\r\n\r\n"),
    "one that does not end": (431, HOOK + b"X-A: " + b"a" * 9_000),
    "a long name": (431, HOOK + b"a" * 9_000 + b": a\r\n\r\n"),
    "large headers together": (
        431,
        HOOK + b"".join(b"X-%d: " % n + b"a" * 1_000 + b"\r\n" for n in range(100)),
    ),
    "large headers together, to their end": (
        431,
        HOOK + b"".join(b"X-%d: " % n + b"a" * 1_000 + b"\r\n" for n in range(100)) + b"\r\n",
    ),
    "many headers": (431, HOOK + b"".join(b"X-%d: a\r\n" % n for n in range(200)) + b"\r\n"),
    "a long target": (414, b"POST /" + b"a" * 9_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
}


@pytest.mark.parametrize("case", TOO_LARGE)
async def test_a_head_too_large_is_refused_before_its_end(edge: Edge, case: str) -> None:
    status, raw = TOO_LARGE[case]
    name = "headers-too-large" if status == 431 else "uri-too-long"
    assert problem(await exchange(edge, raw)) == (status, name)


async def test_a_malformed_request_shows_nothing_of_itself_and_logs_no_traceback(
    edge: Edge, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await exchange(edge, HOOK + b"hunter2\0: a\r\n\r\n")
    assert b"hunter2" not in answer
    assert [record for record in caplog.records if record.exc_info] == []


async def test_every_malformed_request_is_counted(edge: Edge) -> None:
    for _ in range(3):
        await exchange(edge, b"\0\r\n\r\n")
    await edge.rejections.flush()
    [counted] = [REJECTION.decode(each.value) for each in edge.log.on("rejections")]
    assert (counted.tenant_id, counted.reason, counted.count) == (None, "malformed-request", 3)


async def test_pipelined_requests_are_answered_in_order(edge: Edge) -> None:
    other = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /nothing HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n"
    answers = await exchange(edge, WHOLE + other + WHOLE * 100 + last)
    assert statuses(answers) == [202, 200, *[200] * 100, 404]
    assert len(edge.log.on("events.received")) == 1


async def test_a_second_signature_in_another_case_smuggles_nothing(edge: Edge) -> None:
    for order in (SIGNED + b"x-signature: 00\r\n", b"x-signature: 00\r\n" + SIGNED):
        raw = HOOK + LENGTH + order + CLOSE + b"\r\n" + BODY
        assert problem(await exchange(edge, raw)) == (401, "unauthorized")


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"deflate,chunked"])
async def test_a_compressed_transfer_is_refused(edge: Edge, coding: bytes) -> None:
    raw = HOOK + b"Transfer-Encoding: " + coding + b"\r\n" + SIGNED + b"\r\n0\r\n\r\n"
    assert problem(await exchange(edge, raw)) == (415, "unsupported-media")


JSON = b"Content-Type: application/json\r\n"
BOMBS = {
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "a number of 100,000 digits": b'{"id":' + b"9" * 100_000 + b"}",
    "an infinite number": b'{"id":1e400}',
    "NaN": b'{"id":NaN}',
    "a lone surrogate": b'{"id":"\\ud800"}',
    "no UTF-8": b'{"id":"\xff"}',
    "UTF-16": '{"id":"e1"}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "cut off": b'{"id":"e1"',
    "two documents": b"{}{}",
    "nothing": b"",
    "zeros": b"\0" * 100_000,
}


@pytest.mark.parametrize("case", BOMBS)
async def test_a_signed_body_that_is_no_json_but_says_so_is_a_400(edge: Edge, case: str) -> None:
    body = BOMBS[case]
    signature = b"X-Signature: " + signed(body)["X-Signature"].encode() + b"\r\n"
    head = HOOK + b"Content-Length: %d\r\n" % len(body) + signature + JSON + CLOSE
    assert problem(await exchange(edge, head + b"\r\n" + body)) == (400, "malformed-body")
    assert edge.log.records == []


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.long
async def test_memory_stays_flat_under_hostile_bodies(edge: Edge) -> None:
    mib = 1024 * 1024
    bodies = [
        b"[" * mib,
        b"[" + b"{}," * (mib // 3 - 2) + b"{}]",
        b'{"id":' + b"9" * (mib - 8) + b"}",
        b"\0" * mib,
        b'["' + b"\\n" * (mib // 2 - 3) + b'"]',
        b"x" * (mib + 1),
    ]

    async def all_of_them() -> None:
        for body in bodies:
            json = {**signed(body, b"wrong"), "Content-Type": "application/json"}
            await edge.post("/v1/hooks/acme/shop", body, json)
            right = {**signed(body), "Content-Type": "application/json"}
            status, _, _ = await edge.post("/v1/hooks/acme/shop", body, right)
            assert status in {200, 202, 400, 413}

    await all_of_them()
    before = resident_bytes()
    for _ in range(10):
        await all_of_them()
    assert resident_bytes() - before < 32 * mib


ODD = {
    "a million small values": b'{"id":"e1","a":[' + b"1," * 400_000 + b"1]}",
    "many keys": b"{" + b",".join(b'"k%d":1' % n for n in range(60_000)) + b"}",
    "one key many times": b"{" + b'"id":"a",' * 50_000 + b'"id":"b"}',
    "a fraction of 100,000 digits": b'{"id":0.' + b"9" * 100_000 + b"}",
    "an integer past 64 bits": b'{"id":18446744073709551616}',
    "1,000 levels": b'{"id":' + b"[" * 1_000 + b"]" * 1_000 + b"}",
    "no object": b'"text"',
    "types that do not fit": b'{"id":{},"type":[],"subject":{},"time":{"a":1}}',
}


@pytest.mark.parametrize("case", ODD)
async def test_odd_but_valid_json_is_an_event(edge: Edge, case: str) -> None:
    body = ODD[case]
    status, _, _ = await edge.post("/v1/hooks/acme/shop", body, signed(body))
    assert status == 202

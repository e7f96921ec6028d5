"""Deliveries as bytes on a connection, and what is answered to them."""

from __future__ import annotations

import asyncio
import re

import orjson

from support.ingress_app import Edge
from support.webhooks import signed

BODY = b'{"id":"e1"}'


HOOK = b"POST /v1/hooks/acme/shop HTTP/1.1\r\nHost: x\r\n"


SIGNED = b"X-Signature: " + signed(BODY)["X-Signature"].encode() + b"\r\n"


LENGTH = b"Content-Length: %d\r\n" % len(BODY)


CHUNKED = b"Transfer-Encoding: chunked\r\n"


CLOSE = b"Connection: close\r\n"


WHOLE = HOOK + LENGTH + SIGNED + b"\r\n" + BODY


async def exchange(edge: Edge, raw: bytes) -> bytes:
    """All that is answered until the connection is closed, which must be soon."""
    reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
    try:
        writer.write(raw)
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()


def statuses(answers: bytes) -> list[int]:
    return [int(code) for code in re.findall(rb"HTTP/1\.[01] (\d{3}) ", answers)]


def problem(answer: bytes) -> tuple[int, str]:
    """Status and name of the one problem that was answered, of which nothing else is told."""
    head, _, body = answer.partition(b"\r\n\r\n")
    told = orjson.loads(body)
    assert set(told) <= {"type", "title", "detail", "status"}
    assert b"application/problem+json" in head
    assert b"Server: tidegate\r\n" in head
    assert b"Traceback" not in answer
    return told["status"], told["type"].removeprefix("urn:tidegate:problem:")

"""Receivers of outgoing webhooks that answer with bytes of a test's choice, or misbehave."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Receiver:
    """What a receiver got: the raw requests in order, and how many connections carried them."""

    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


@asynccontextmanager
async def receiving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """A receiver on 127.0.0.1 that gives `answer` to each request."""
    receiver = Receiver()
    handlers: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        receiver.connections += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while not writer.is_closing():
                receiver.requests.append(await _request(reader))
                await answer(writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


def answering(raw: bytes) -> Answer:
    """The same bytes for every request; the connection stays open."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()

    return answer


def closing(raw: bytes) -> Answer:
    """The bytes, then the end of the connection."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()
        writer.close()

    return answer


def hanging(raw: bytes) -> Answer:
    """The bytes, and nothing more for ever."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()
        await asyncio.Event().wait()

    return answer


def dripping(head: bytes, every_seconds: float) -> Answer:
    """The bytes, then one byte at a time for ever."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(every_seconds)

    return answer


def flooding(head: bytes, piece: bytes, pieces: int) -> Answer:
    """The bytes, then `pieces` times the piece, as fast as it is read."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        for _ in range(pieces):
            writer.write(piece)
            await writer.drain()

    return answer


async def resetting(writer: asyncio.StreamWriter) -> None:
    """A connection that ends with RST."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    ]
    return head + await reader.readexactly(lengths[0] if lengths else 0)

"""Load on an HTTP server from a process of its own: whole requests, rendered before the clock runs.

`closed`: every connection sends its next request when it has the answer to the last. `open_loop`:
requests go out at a fixed rate whatever the server does, and a latency counts from the moment at
which its request was due, so that a server which stalls cannot hide it.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import uvloop
from harness import worked_seconds


@dataclass
class Answers:
    """What came back: seconds for each answer, how often each status, and the time it took.

    `bodies` stands beside the moment of each answer, in seconds since the epoch, and `numbers`
    tells which of the requests each one answers, counted from 0. `worked` is the seconds that all
    cores of the machine worked meanwhile, whoever for; `spent` is what this load itself took of
    them.
    """

    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    bodies: list[tuple[float, bytes]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    took: float = 0.0
    worked: float = 0.0
    spent: float = 0.0

    @property
    def began(self) -> float:
        """When the first request was sent, in seconds since the epoch."""
        times = zip(self.bodies, self.latencies, strict=True)
        return min(moment - took for (moment, _), took in times)

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.latencies) / self.took

    @property
    def cores(self) -> float:
        """Cores that were at work, on the average."""
        return self.worked / self.took


def closed(port: int, requests: Sequence[bytes], connections: int, seconds: float) -> Answers:
    """Keep `connections` busy until the time is up or every request was sent once."""
    return _elsewhere("_closed", port, requests, connections, seconds)


def open_loop(port: int, requests: Sequence[bytes], connections: int, rate: float) -> Answers:
    """Send every request once, `rate` a second, each over the next connection that is free."""
    return _elsewhere("_open_loop", port, requests, connections, rate)


def _elsewhere(drive: str, *arguments: Any) -> Answers:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(theirs, drive, arguments))
    process.start()
    theirs.close()
    try:
        answers: Answers = ours.recv()
    except BaseException:
        process.terminate()
        raise
    finally:
        process.join()
    return answers


def _run(pipe: Any, drive: str, arguments: tuple[Any, ...]) -> None:
    before = time.process_time()
    answers = uvloop.run({"_closed": _closed, "_open_loop": _open_loop}[drive](*arguments))
    answers.spent = time.process_time() - before
    pipe.send(answers)


async def _closed(
    port: int, requests: Sequence[bytes], connections: int, seconds: float
) -> Answers:
    waiting, answers = deque(enumerate(requests)), Answers()
    started, worked = time.perf_counter(), worked_seconds()

    async def one() -> None:
        connection = await _Connection.to(port)
        while waiting and time.perf_counter() < started + seconds:
            began = time.perf_counter()
            number, request = waiting.popleft()
            _count(answers, began, number, await connection.ask(request))
        connection.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    answers.took, answers.worked = time.perf_counter() - started, worked_seconds() - worked
    return answers


async def _open_loop(
    port: int, requests: Sequence[bytes], connections: int, rate: float
) -> Answers:
    free: asyncio.Queue[_Connection] = asyncio.Queue()
    for _ in range(connections):
        free.put_nowait(await _Connection.to(port))
    answers, started, worked = Answers(), time.perf_counter(), worked_seconds()

    async def one(due: float, number: int, request: bytes) -> None:
        connection = await free.get()
        _count(answers, due, number, await connection.ask(request))
        free.put_nowait(connection)

    async with asyncio.TaskGroup() as tasks:
        for number, request in enumerate(requests):
            due = started + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.create_task(one(due, number, request))
    answers.took, answers.worked = time.perf_counter() - started, worked_seconds() - worked
    return answers


def _count(answers: Answers, since: float, number: int, answer: tuple[int, bytes]) -> None:
    status, body = answer
    answers.numbers.append(number)
    answers.latencies.append(time.perf_counter() - since)
    answers.statuses[status] += 1
    answers.bodies.append((time.time(), body))


class _Connection(asyncio.Protocol):
    """One kept connection, one request at a time."""

    def __init__(self) -> None:
        self._received = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    @classmethod
    async def to(cls, port: int) -> _Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, "127.0.0.1", port)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator or len(body) < int(head.lower().split(b"content-length: ")[1].split()[0]):
            return
        self._received = b""
        if self._answer is not None:
            self._answer.set_result((int(head[9:12]), body))

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("closed without an answer"))

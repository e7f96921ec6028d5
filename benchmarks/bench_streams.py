"""Memory of open streams, and the time from `ctx.stream` to their readers.

    python benchmarks/bench_streams.py [--streams 2000] [--tokens 2000] [--seconds 20] [--json]

`tidegate operator` shows running jobs, and each has a reader of its `/v1/jobs/{id}/events`. Then
another process says so many tokens a second, spread over all jobs, by the code that a worker
publishes them with: it gathers those of a step for up to 50 ms. Each token has the time at which it
was said. Every reader must get every token of its job once and in order, else the exit code is 1.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from aiohttp import ClientSession
from bench_operator import answers, until
from harness import Result, arguments, broker_and_folder, create_topics, report
from operator_records import job, of_job, write
from outside import OVERLAY, flush, percentiles, producer, stage

from streams.dispatcher.lease import lease_of
from streams.redaction.redaction import Redaction
from streams.serde.codec import LIVE
from streams.serde.ids import partition_for
from streams.serde.records import Job, LiveOutput
from streams.topology.load import load
from streams.worker.live.output import LivePublisher

TOPOLOGY = load(OVERLAY)
TOKEN = secrets.token_hex(16)
TICK_SECONDS = 0.01
WARM_SECONDS = 2.0
_SAID = re.compile(rb'"text":"([^"]*)"')
_MIB = 1024 * 1024


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--streams", type=int, default=2_000)
    parser.add_argument("--tokens", type=int, default=2_000, help="a second, of all jobs together")
    parser.add_argument("--seconds", type=float, default=20)
    chosen = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with broker_and_folder() as (bootstrap, folder):
        create_topics(bootstrap, TOPOLOGY, tuple(TOPOLOGY.topics))
        env = {"TIDEGATE_ADMIN_TOKEN": TOKEN}
        with stage("operator", bootstrap, folder, "--port", str(port), env=env) as process:
            sizes = chosen.streams, chosen.tokens, chosen.seconds
            results, wrong = asyncio.run(measure(bootstrap, port, process, *sizes))
    report("streams", results, as_json=chosen.json)
    sys.exit(1 if wrong else 0)


async def measure(
    bootstrap: str,
    port: int,
    process: subprocess.Popen[bytes],
    streams: int,
    tokens: int,
    seconds: float,
) -> tuple[list[Result], int]:
    jobs = [job(number) for number in range(streams)]
    await shown(bootstrap, port, process, jobs)
    before = resident(process)
    readers = [await opened(port, each) for each in jobs]
    await until(partial(all_told, readers), process, "every stream shows its job")
    name = f"{streams:,} open streams"
    memory = Result(name, "resident memory more", more(process, before), "MiB")
    said = await asyncio.to_thread(speak, bootstrap, jobs, tokens, seconds)
    await until(partial(all_heard, readers, said), process, "every token is read")
    wrong = sum(reader.numbers != list(range(said)) for reader in readers)
    begin = min(reader.times[0] for reader in readers) + WARM_SECONDS * 1e9
    took = [
        t
        for reader in readers
        for at, t in zip(reader.times, reader.took, strict=True)
        if at >= begin
    ]
    told = f"{tokens:,} tokens a second to them"
    peak = Result(told, "resident memory more", more(process, before), "MiB")
    results = [memory, *percentiles(told, "from ctx.stream to the reader", took), peak]
    return [*results, Result(told, "wrong, lost or doubled", wrong, "streams")], wrong


async def shown(
    bootstrap: str, port: int, process: subprocess.Popen[bytes], jobs: list[Job]
) -> None:
    """Write the jobs, and return once the API shows them."""
    base, headers = f"http://127.0.0.1:{port}", {"Authorization": f"Bearer {TOKEN}"}
    async with ClientSession(base, headers=headers) as api:
        await until(lambda: answers(api, "/readyz"), process, "the operator is ready")
        await asyncio.to_thread(write, bootstrap, [of_job(each) for each in jobs])
        for last in {each.tenant_id: each for each in jobs}.values():
            await until(
                partial(answers, api, f"/v1/jobs/{last.job_id}"), process, "all jobs are shown"
            )


class Reader(asyncio.Protocol):
    """One stream; it keeps when each token was said and how long it took, in seconds."""

    def __init__(self, job_id: str) -> None:
        self.is_told = False
        self.numbers: list[int] = []
        self.times: list[int] = []
        self.took: list[float] = []
        self._request = (
            f"GET /v1/jobs/{job_id}/events HTTP/1.1\r\nHost: bench\r\n"
            f"Authorization: Bearer {TOKEN}\r\n\r\n"
        ).encode()
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.time_ns()
        whole, _, self._rest = (self._rest + data).rpartition(b"\n\n")
        self.is_told |= b"event: status" in whole
        for text in _SAID.findall(whole):
            for word in text.split():
                number, at = map(int, word.split(b"@"))
                self.numbers.append(number)
                self.times.append(at)
                self.took.append((now - at) / 1e9)


async def opened(port: int, of: Job) -> Reader:
    loop = asyncio.get_running_loop()
    _, reader = await loop.create_connection(lambda: Reader(of.job_id), "127.0.0.1", port)
    return reader


async def all_told(readers: list[Reader]) -> bool:
    return all(reader.is_told for reader in readers)


async def all_heard(readers: list[Reader], said: int) -> bool:
    return all(len(reader.numbers) >= said for reader in readers)


def resident(process: subprocess.Popen[bytes]) -> int:
    """Bytes of memory that the operator has now (proc(5))."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024


def more(process: subprocess.Popen[bytes], before: int) -> float:
    return round((resident(process) - before) / _MIB, 1)


def speak(bootstrap: str, jobs: list[Job], tokens: int, seconds: float) -> int:
    """Say tokens in a process of its own; returns how many each job said."""
    each = max(1, round(tokens * seconds / len(jobs)))
    speaker = multiprocessing.get_context("spawn").Process(
        target=_speak, args=(bootstrap, jobs, tokens, each)
    )
    speaker.start()
    speaker.join()
    if speaker.exitcode:
        raise SystemExit(f"the speaker ended with exit code {speaker.exitcode}")
    return each


def _speak(bootstrap: str, jobs: list[Job], tokens: int, each: int) -> None:
    asyncio.run(_say(bootstrap, jobs, tokens, each))


async def _say(bootstrap: str, jobs: list[Job], tokens: int, each: int) -> None:
    sender, loop = producer(bootstrap, linger_ms=1), asyncio.get_running_loop()

    def publish(said: LiveOutput) -> asyncio.Future[None]:
        acknowledged: asyncio.Future[None] = loop.create_future()
        partition = partition_for(said.tenant_id, TOPOLOGY.partitions)

        def done(*_: object) -> None:
            acknowledged.set_result(None)

        sender.produce(
            "jobs.live", LIVE.encode(said), said.job_id.encode(), partition, on_delivery=done
        )
        return acknowledged

    live = [publisher(one, publish, loop) for one in jobs]
    polling = asyncio.create_task(_poll(sender.poll))
    began, words = time.monotonic(), each * len(jobs)
    for word in range(words):
        number, whose = divmod(word, len(jobs))
        live[whose].token("", f"{number}@{time.time_ns()} ")
        if (wait := began + (word + 1) / tokens - time.monotonic()) > TICK_SECONDS:
            await asyncio.sleep(wait)
    await asyncio.gather(*(one.flush() for one in live))
    polling.cancel()
    flush(sender)


async def _poll(poll: Callable[[float], int]) -> None:
    """Call back for what was acknowledged, in the event loop."""
    while True:
        poll(0)
        await asyncio.sleep(0.001)


def publisher(
    of: Job, publish: Callable[[LiveOutput], asyncio.Future[None]], loop: asyncio.AbstractEventLoop
) -> LivePublisher:
    lease = lease_of(of, (), 0, TOPOLOGY.leases)
    return LivePublisher(replace(lease, epoch=1), publish, time.monotonic, loop, Redaction())


if __name__ == "__main__":
    main()

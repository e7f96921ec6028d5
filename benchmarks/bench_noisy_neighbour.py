"""What a tenant far over its rate does to another's latency, in one ingress process.

    python benchmarks/bench_noisy_neighbour.py [--seconds 20] [--json]

The quiet tenant sends 50 events a second over 10 connections, first alone, then while the noisy
one sends 100 times as much: 100 connections with 50 a second each, against a rate of 50 a second.
Each sender is a process of its own. A latency counts from when its request was due, whether the
connection was free then or not.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import time
from collections import Counter, deque
from functools import partial
from typing import Any

import uvloop
from bench_ingress import TOPOLOGY, ingress, set_sources
from confluent_kafka import Producer
from harness import Result, arguments, broker_and_folder, create_topics, report
from webhook_requests import TENANTS, made

from streams.serde.codec import TENANT
from streams.serde.ids import partition_for
from streams.serde.keys import tenant_key
from streams.serde.records import TenantRecord
from streams.tenants.settings import Rate, TenantSettings

QUIET, NOISY = TENANTS[:2]
PER_SECOND = 50.0
TOPICS = ("payloads", "events.received", "tenants", "dlq", "ingress.rates")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    chosen = parser.parse_args()
    report("noisy_neighbour", measure(chosen.seconds), as_json=chosen.json)


def measure(seconds: float) -> list[Result]:
    """The quiet tenant alone and beside the noisy one, against one fresh broker and ingress."""
    with broker_and_folder() as (bootstrap, folder):
        create_topics(bootstrap, TOPOLOGY, TOPICS)
        set_sources(bootstrap)
        set_rate(bootstrap)
        with ingress(bootstrap, folder, 1) as port:
            run([(port, QUIET, 10, 500.0, 3)])  # connections, caches and the JVM warm up
            [(alone, _, _)] = run([(port, QUIET, 10, PER_SECOND, seconds)])
            (beside, _, _), (_, statuses, took) = run(
                [
                    (port, QUIET, 10, PER_SECOND, seconds),
                    (port, NOISY, 100, 100 * PER_SECOND, seconds),
                ]
            )
    p99 = [statistics.quantiles(latencies, n=100)[98] for latencies in (alone, beside)]
    return [
        Result("quiet tenant", "p99 alone", round(p99[0] * 1000, 1), "ms"),
        Result("quiet tenant", "p99 beside the noisy one", round(p99[1] * 1000, 1), "ms"),
        Result("quiet tenant", "ratio", round(p99[1] / p99[0], 2), ""),
        Result("noisy tenant", "answered", round(statuses.total() / took, 1), "1/s"),
        Result("noisy tenant", "accepted", round(statuses[202] / took, 1), "1/s"),
    ]


def set_rate(bootstrap: str) -> None:
    """The noisy tenant's."""
    settings = TenantSettings(rate=Rate(count=int(PER_SECOND), seconds=1))
    record = TenantRecord(NOISY, "tenant", "", False, settings.model_dump_json(), updated_at=1)
    producer = Producer({"bootstrap.servers": bootstrap})
    partition = partition_for(NOISY, TOPOLOGY.partitions)
    producer.produce("tenants", TENANT.encode(record), tenant_key(NOISY, "tenant", ""), partition)
    producer.flush(30)


def run(loads: list[tuple[Any, ...]]) -> list[tuple[list[float], Counter[int], float]]:
    """Every load at once, each in a process of its own: latencies, statuses, and what it took."""
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in loads]
    begin = context.Barrier(len(loads))
    processes = [
        context.Process(target=load, args=(theirs, begin, *parameters))
        for (_, theirs), parameters in zip(pipes, loads, strict=True)
    ]
    for process in processes:
        process.start()
    found = [ours.recv() for ours, _ in pipes]
    for process in processes:
        process.join()
    return found


def load(
    pipe: Any, begin: Any, port: int, tenant: str, connections: int, rate: float, seconds: float
) -> None:
    requests = deque(made(int(rate * seconds), tenants=[tenant]))
    begin.wait()  # rendering took a while
    pipe.send(uvloop.run(drive(port, requests, connections, rate, seconds)))


async def drive(
    port: int, requests: deque[bytes], connections: int, rate: float, seconds: float
) -> tuple[list[float], Counter[int], float]:
    loop = asyncio.get_running_loop()
    gap, started = connections / rate, time.perf_counter() + 0.2
    until, lanes = started + seconds, []
    for index in range(connections):
        due = started + index / rate
        lane = partial(Lane, requests, due, gap, until)
        _, opened = await loop.create_connection(lane, "127.0.0.1", port)
        lanes.append(opened)
    await asyncio.gather(*(lane.ended for lane in lanes))
    statuses = sum((lane.statuses for lane in lanes), Counter[int]())
    latencies = [latency for lane in lanes for latency in lane.latencies]
    return latencies, statuses, time.perf_counter() - started


class Lane(asyncio.Protocol):
    """One connection: a request every `gap` seconds, or as soon as the last one is answered."""

    def __init__(self, requests: deque[bytes], due: float, gap: float, until: float) -> None:
        self._requests = requests
        self._until = until
        self._due = due
        self._gap = gap
        self._received = b""
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.latencies: list[float] = []
        self.statuses: Counter[int] = Counter()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(SystemExit("the ingress closed a connection"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator or len(body) < int(head.lower().split(b"content-length: ")[1].split()[0]):
            return
        self.statuses[int(self._received[9:12])] += 1
        self.latencies.append(time.perf_counter() - self._due)
        self._received = b""
        self._due += self._gap
        self._next()

    def _next(self) -> None:
        if not self._requests or time.perf_counter() > self._until:
            self.ended.set_result(None)
            self._transport.close()
            return
        delay = self._due - time.perf_counter()
        if delay > 0:
            self._loop.call_later(delay, self._send)
        else:
            self._send()

    def _send(self) -> None:
        if not self._requests:  # another lane sent the last one meanwhile
            self._next()
            return
        self._transport.write(self._requests.popleft())


if __name__ == "__main__":
    main()

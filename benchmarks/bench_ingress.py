"""Requests a second of one ingress process, with a real broker on the same machine.

    python benchmarks/bench_ingress.py [--seconds 10] [--connections 64] [--json]

Bodies of 1 KB are signed and whole requests rendered before the clock runs; a load process of
its own keeps every connection busy over loopback. `fresh events` are each stored (two records
acknowledged by all in-sync replicas); `redeliveries` are answered from memory.
"""

from __future__ import annotations

import asyncio
import hmac
import multiprocessing
import os
import re
import socket
import statistics
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import orjson
import uvloop
from confluent_kafka import Producer
from harness import Result, arguments, broker_and_folder, create_topics, report

from streams.serde.codec import TENANT
from streams.serde.ids import partition_for
from streams.serde.keys import tenant_key
from streams.settings import Settings
from streams.telemetry import configure_logging
from streams.tenants import SourceSettings, source_record
from streams.topology.load import load
from streams.topology.model import Route
from streams.vault import local_vault

TOPOLOGY = replace(load(), routes=(Route("bench", "ticket.*", "draft_reply", "webhook"),))
TENANTS = [f"tenant{number}" for number in range(20)]
SECRET = b"signs the benchmark's bodies"
BODY_BYTES = 1024
KEY = b"b" * 32


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--connections", type=int, default=64)
    chosen = parser.parse_args()
    results = measure(chosen.seconds, chosen.connections)
    report("ingress", results, as_json=chosen.json)


def measure(seconds: float, connections: int) -> list[Result]:
    """Both contenders against one fresh broker and one ingress process."""
    results = []
    with broker_and_folder() as (bootstrap, folder):
        create_topics(bootstrap, TOPOLOGY, ("payloads", "events.received", "tenants", "dlq"))
        set_sources(bootstrap)
        with ingress(bootstrap, folder) as port:
            run_load(port, connections, 2, fresh=True)  # connections, caches and the JVM warm up
            for contender, fresh in (("fresh events", True), ("redeliveries", False)):
                before = cpu_seconds(port)
                *latencies, took = run_load(port, connections, seconds, fresh)
                cpu = cpu_seconds(port) - before
                results += figures(contender, latencies, took, cpu)
    return results


def set_sources(bootstrap: str) -> None:
    """One source for every tenant."""
    producer = Producer({"bootstrap.servers": bootstrap})
    settings = SourceSettings(scheme="hmac-sha256")
    for tenant in TENANTS:
        record = source_record(local_vault(KEY), tenant, "bench", settings, [SECRET], 1)
        key = tenant_key(tenant, "source", "bench")
        partition = partition_for(tenant, TOPOLOGY.partitions)
        producer.produce("tenants", TENANT.encode(record), key, partition)
    producer.flush(30)


@contextmanager
def ingress(bootstrap: str, folder: Path) -> Iterator[int]:
    """One ingress process that is ready; yields its port."""
    key_file = folder / "vault.key"
    key_file.write_bytes(KEY)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    settings = Settings(
        bootstrap=bootstrap, port=port, vault_key_file=key_file, log_level="warning"
    )
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(settings,))
    process.start()
    try:
        await_ready(port, process)
        yield port
    finally:
        process.terminate()
        process.join()


def serve(settings: Settings) -> None:
    from ingress.server import run

    configure_logging(settings, stage="ingress")
    run(settings, TOPOLOGY)


def await_ready(port: int, process: BaseProcess) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.is_alive():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the ingress process did not become ready")


def run_load(port: int, connections: int, seconds: float, fresh: bool) -> list[float]:
    """Latencies in seconds, and as the last item the time the load took."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=load, args=(theirs, port, connections, seconds, fresh))
    process.start()
    theirs.close()
    try:
        latencies: list[float] = ours.recv()
    finally:
        process.join()
    return latencies


def load(pipe: Any, port: int, connections: int, seconds: float, fresh: bool) -> None:
    requests = rendered(int(seconds * 9_000) if fresh else 500)
    pipe.send(uvloop.run(drive(port, connections, seconds, requests, 202 if fresh else 0)))


def rendered(count: int) -> list[bytes]:
    """Whole requests, each with an event id of its own."""
    requests = []
    run = os.urandom(4).hex()
    for number in range(count):
        event = {"type": "ticket.created", "id": f"evt-{run}-{number}", "data": {"id": number}}
        padding = BODY_BYTES - len(orjson.dumps({**event, "text": ""}))
        body = orjson.dumps({**event, "text": "x" * padding})
        head = (
            f"POST /v1/hooks/{TENANTS[number % len(TENANTS)]}/bench HTTP/1.1\r\n"
            "Host: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"X-Signature: {hmac.digest(SECRET, body, 'sha256').hex()}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        requests.append(head.encode() + body)
    return requests


async def drive(
    port: int, connections: int, seconds: float, requests: list[bytes], status: int
) -> list[float]:
    loop = asyncio.get_running_loop()
    load = Load(requests, status, time.perf_counter() + seconds, loop.create_future())
    started = time.perf_counter()
    for _ in range(connections):
        await loop.create_connection(lambda: Connection(load), "127.0.0.1", port)
    await load.ended
    return [*load.latencies, time.perf_counter() - started]


class Load:
    """What all connections share; `status` 0 accepts 200 and 202."""

    def __init__(
        self, requests: list[bytes], status: int, until: float, ended: asyncio.Future[None]
    ) -> None:
        self.requests = requests
        self.status = status
        self.until = until
        self.ended = ended
        self.sent = 0
        self.open = 0
        self.latencies: list[float] = []


class Connection(asyncio.Protocol):
    """One request after another; an answer of another status ends the benchmark."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._started = 0.0
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._load.open += 1
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator or len(body) < int(head.lower().split(b"content-length: ")[1].split()[0]):
            return
        status = int(self._received[9:12])
        if status not in ((self._load.status,) if self._load.status else (200, 202)):
            self._load.ended.set_exception(SystemExit(f"answered {self._received!r}"))
            return
        self._received = b""
        self._load.latencies.append(time.perf_counter() - self._started)
        self._send()

    def _send(self) -> None:
        load = self._load
        self._started = time.perf_counter()
        exhausted = load.status and load.sent >= len(load.requests)
        if exhausted or self._started > load.until:
            load.open -= 1
            self._transport.close()
            if not load.open and not load.ended.done():
                load.ended.set_result(None)
            return
        self._transport.write(load.requests[load.sent % len(load.requests)])
        load.sent += 1


def cpu_seconds(port: int) -> float:
    """Processor time of the ingress process so far; 0 where the platform does not tell."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as response:
        found = re.search(r"^process_cpu_seconds_total (\S+)", response.read().decode(), re.M)
    return float(found[1]) if found else 0.0


def figures(contender: str, latencies: list[float], took: float, cpu: float) -> list[Result]:
    cuts = statistics.quantiles(latencies, n=100)
    return [
        Result(contender, "requests", round(len(latencies) / took, 1), "1/s"),
        Result(contender, "latency p50", round(cuts[49] * 1000, 1), "ms"),
        Result(contender, "latency p99", round(cuts[98] * 1000, 1), "ms"),
        Result(contender, "processor time", round(cpu / len(latencies) * 1e6, 1), "us/request"),
    ]


if __name__ == "__main__":
    main()

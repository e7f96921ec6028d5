"""Requests a second of the ingress, with a real broker on the same machine.

    python benchmarks/bench_ingress.py [--seconds 10] [--connections 64] [--json]

Requests are signed and rendered before the clock runs; a load process of its own sends them over
loopback. `fresh events` are each normalized and stored (two records acknowledged by all in-sync
replicas), `GitHub's bodies` are real ones of 12 KB where the samples are at hand, `redeliveries`
are answered from memory. `open loop` sends 1,000 a second whatever the ingress does. `two
processes` share one port. `bare` is `bare_ingress.py`, the least there is, under the same load in
the same run: compare with it. `whole machine` is broker and load too: where it is all the cores,
nothing but less work makes a row faster. `step` is what each step of one request costs, without
Kafka. `anchor` is the p99 that any ingress is expected to stay below.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Producer
from harness import Result, arguments, broker_and_folder, create_topics, free_port, report
from http_load import Answers, closed, open_loop
from ingress_steps import steps
from outside import stage
from webhook_requests import SECRET, TENANTS, github, made

from streams.serde.codec import TENANT
from streams.serde.ids import partition_for
from streams.serde.keys import tenant_key
from streams.tenants.settings import SourceSettings, source_record
from streams.topology.load import load
from streams.vault.key_encryption import local_vault

TOPOLOGY = load()
KEY = b"b" * 32
OPEN_LOOP_RATE = 1_000
ANCHOR_MS = 80.0
HERE = Path(__file__).parent


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--connections", type=int, default=64)
    chosen = parser.parse_args()
    results = measure(chosen.seconds, chosen.connections)
    report("ingress", [*results, *steps()], as_json=chosen.json)


def measure(seconds: float, connections: int) -> list[Result]:
    """Every contender against one fresh broker."""
    with broker_and_folder() as (bootstrap, folder):
        create_topics(bootstrap, TOPOLOGY, tuple(TOPOLOGY.topics))
        set_sources(bootstrap)
        with bare(bootstrap) as port:
            closed(port, made(3_000), connections, 3)  # connections and the JVM warm up
            yardstick = closed(port, made(int(seconds * 9_000)), connections, seconds)
            steadily = open_loop(port, steady(seconds), 256, OPEN_LOOP_RATE)
        with ingress(bootstrap, folder, 1) as port:
            alone = one_process(port, connections, seconds)
        with ingress(bootstrap, folder, 2) as port:
            closed(port, made(3_000), connections, 3)
            both = closed(port, made(int(seconds * 12_000)), connections, seconds)
    least = [*figures("bare", yardstick), *figures("bare, open loop, 1,000/s", steadily)]
    rows = [*least, *alone, *figures("two processes", both)]
    return [*rows, *ratios(rows), Result("anchor", "latency p99, below", ANCHOR_MS, "ms")]


def one_process(port: int, connections: int, seconds: float) -> list[Result]:
    """The loads on a single ingress process."""
    closed(port, made(3_000), connections, 3)
    fresh = made(int(seconds * 9_000))
    before = cpu_seconds(port)
    accepted = closed(port, fresh, connections, seconds)
    cost = (cpu_seconds(port) - before) / len(accepted.latencies)
    known = fresh[:500] * int(seconds * 40)
    real = github(int(seconds * 3_000))
    rows = [
        *figures("fresh events", accepted),
        Result("fresh events", "processor time", round(cost * 1e6, 1), "us/request"),
        *figures("redeliveries", closed(port, known, connections, seconds), 200),
        *(figures("GitHub's bodies", closed(port, real, connections, seconds)) if real else []),
    ]
    before = cpu_seconds(port)
    answered = open_loop(port, steady(seconds), 256, OPEN_LOOP_RATE)
    cost = (cpu_seconds(port) - before) / len(answered.latencies)
    name = "open loop, 1,000/s"
    spent = Result(name, "processor time", round(cost * 1e6, 1), "us/request")
    return [*rows, *figures(name, answered), spent]


def steady(seconds: float) -> list[bytes]:
    """What an open loop sends in so many seconds."""
    return made(int(seconds * OPEN_LOOP_RATE))


def figures(contender: str, answers: Answers, expected: int = 202) -> list[Result]:
    """Rate and percentiles; any status but the expected one ends the benchmark."""
    if set(answers.statuses) != {expected}:
        raise SystemExit(f"{contender}: answered {dict(answers.statuses)}, not {expected} alone")
    cuts = statistics.quantiles(answers.latencies, n=100)
    return [
        Result(contender, "requests", round(answers.rate, 1), "1/s"),
        Result(contender, "latency p50", round(cuts[49] * 1000, 1), "ms"),
        Result(contender, "latency p99", round(cuts[98] * 1000, 1), "ms"),
        Result(contender, "whole machine at work", round(answers.cores, 2), "cores"),
    ]


def ratios(rows: list[Result]) -> list[Result]:
    """Requests a second against each other."""
    rate = {row.contender: row.value for row in rows if row.metric == "requests"}
    return [
        Result(one, f"requests, to {other}", round(rate[one] / rate[other], 2), "x")
        for one, other in (("fresh events", "bare"), ("two processes", "fresh events"))
    ]


def set_sources(bootstrap: str) -> None:
    """The sources of `webhook_requests` for every tenant."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for tenant in TENANTS:
        for name, scheme in (("bench", "hmac-sha256"), ("github", "github")):
            settings = SourceSettings(scheme=scheme)
            record = source_record(local_vault(KEY), tenant, name, settings, [SECRET], 1)
            key = tenant_key(tenant, "source", name)
            partition = partition_for(tenant, TOPOLOGY.partitions)
            producer.produce("tenants", TENANT.encode(record), key, partition)
    producer.flush(30)


@contextmanager
def ingress(bootstrap: str, folder: Path, processes: int) -> Iterator[int]:
    """So many ingress processes on one port, ready."""
    port = free_port()
    with ExitStack() as running:
        for number in range(processes):
            flags = ("--port", str(port), "--instance", str(number))
            await_ready(port, running.enter_context(stage("ingress", bootstrap, folder, *flags)))
        yield port


@contextmanager
def bare(bootstrap: str) -> Iterator[int]:
    """`bare_ingress.py` as a process, ready."""
    port = free_port()
    command = [sys.executable, str(HERE / "bare_ingress.py"), bootstrap, str(port)]
    with subprocess.Popen([*command, "payloads", "events"]) as process:
        try:
            await_ready(port, process)
            yield port
        finally:
            process.terminate()


def await_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    """Return after some probes in a row were answered: two processes share the port."""
    deadline, ready = time.monotonic() + 60, 0
    while time.monotonic() < deadline and process.poll() is None and ready < 20:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1):
                ready += 1
        except OSError:
            ready = 0
            time.sleep(0.05)
    if ready < 20:
        raise SystemExit("the ingress process did not become ready")


def cpu_seconds(port: int) -> float:
    """Processor time of the ingress process so far; 0 where the platform does not tell."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as response:
        found = re.search(r"^process_cpu_seconds_total (\S+)", response.read().decode(), re.M)
    return float(found[1]) if found else 0.0


if __name__ == "__main__":
    main()

"""Memory of one ingress process while many bodies of 25 MiB arrive at once.

    python benchmarks/bench_ingress_large.py [--bodies 20] [--rounds 3] [--json]

Every body is signed and has an id of its own; all of a round are sent at the same time over
loopback. Each must be answered, by 202 or by 429 or 503 with `Retry-After`. The peak is the
process's `VmHWM` (proc(5)); the bound is the budget of bodies in flight and 200 MiB.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import orjson
from bench_ingress import KEY, TOPOLOGY, await_ready
from confluent_kafka import Producer
from harness import Result, arguments, broker_and_folder, create_topics, free_port, report
from outside import stage
from webhook_requests import SECRET, TENANTS

from streams.serde.codec import TENANT
from streams.serde.ids import partition_for
from streams.serde.keys import tenant_key
from streams.settings import Settings
from streams.tenants.settings import SourceSettings, source_record
from streams.vault.key_encryption import local_vault

MIB = 1024 * 1024
BODY_BYTES = 25 * MIB
PIECE_BYTES = 64 * 1024
MARGIN_BYTES = 200 * MIB


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--bodies", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    results = measure(chosen.bodies, chosen.rounds)
    report("ingress_large", results, as_json=chosen.json)


def measure(bodies: int, rounds: int) -> list[Result]:
    """Answers by status, and the peak of memory before and after."""
    with broker_and_folder() as (bootstrap, folder):
        create_topics(bootstrap, TOPOLOGY, ("payloads", "events.received", "tenants", "dlq"))
        set_source(bootstrap)
        port = free_port()
        with stage("ingress", bootstrap, folder, "--port", str(port)) as process:
            await_ready(port, process)
            quiet = peak_bytes(process.pid)
            answers = Counter[int]()
            for number in range(rounds):
                answers += asyncio.run(deliver(port, bodies, number))
            return figures(bodies * rounds, answers, quiet, peak_bytes(process.pid))


def set_source(bootstrap: str) -> None:
    """A source that takes bodies as large as any may."""
    producer = Producer({"bootstrap.servers": bootstrap})
    settings = SourceSettings(scheme="hmac-sha256", max_body_bytes=BODY_BYTES)
    record = source_record(local_vault(KEY), TENANTS[0], "bench", settings, [SECRET], 1)
    key = tenant_key(TENANTS[0], "source", "bench")
    partition = partition_for(TENANTS[0], TOPOLOGY.partitions)
    producer.produce("tenants", TENANT.encode(record), key, partition)
    producer.flush(30)


async def deliver(port: int, bodies: int, number: int) -> Counter[int]:
    """Send all at once; how often each status was answered."""
    tail = rows()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(120)) as session:
        sends = (send(session, port, f"evt-{number}-{each}", tail) for each in range(bodies))
        return Counter(await asyncio.gather(*sends))


async def send(session: aiohttp.ClientSession, port: int, id_: str, tail: bytes) -> int:
    """One delivery; its status, 0 where the connection ended without an answer."""
    head = b'{"id":"%s","type":"ticket.created",' % id_.encode()
    body = head + tail[len(head) :]
    headers = {
        "X-Signature": hmac.digest(SECRET, body, "sha256").hex(),
        "Content-Length": str(len(body)),
        "Content-Type": "application/json",
    }
    url = f"http://127.0.0.1:{port}/v1/hooks/{TENANTS[0]}/bench"
    try:
        async with session.post(url, data=pieces(body), headers=headers) as response:
            await response.read()
            refused = response.status in (429, 503)
            return 0 if refused and "Retry-After" not in response.headers else response.status
    except aiohttp.ClientError:
        return 0


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    view = memoryview(body)
    for start in range(0, len(body), PIECE_BYTES):
        yield bytes(view[start : start + PIECE_BYTES])
        await asyncio.sleep(0)


def rows() -> bytes:
    """An object of 25 MiB, less its first members, behind room for them."""
    row = orjson.dumps({"number": 1, "open": True, "tags": ["a", "b"], "text": "x" * 400})
    opening, closing = b'"rows":[', b"]}"
    room = 100
    left = BODY_BYTES - room - len(opening) - len(closing)
    whole = b",".join([row] * (left // (len(row) + 1)))
    padding = b" " * (left - len(whole))
    return b" " * room + opening + whole + padding + closing


def peak_bytes(pid: int) -> int:
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(found[1]) * 1024 if found else 0


def figures(sent: int, answers: Counter[int], quiet: int, peak: int) -> list[Result]:
    name, budget = "bodies of 25 MiB at once", Settings().in_flight_bytes
    refused = answers[429] + answers[503]
    return [
        Result(name, "sent", sent, "bodies"),
        Result(name, "accepted", answers[202], "bodies"),
        Result(name, "told to come again", refused, "bodies"),
        Result(name, "answered otherwise or not at all", sent - answers[202] - refused, "bodies"),
        Result(name, "peak resident memory, quiet", quiet / MIB, "MiB"),
        Result(name, "peak resident memory", peak / MIB, "MiB"),
        Result(name, "the bound: budget and 200 MiB", (budget + MARGIN_BYTES) / MIB, "MiB"),
    ]


if __name__ == "__main__":
    main()

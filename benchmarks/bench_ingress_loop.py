"""What the event loop's thread of an ingress spends on one webhook of 1 KB, without Kafka.

    python benchmarks/bench_ingress_loop.py [--json]

Requests come over loopback from a load process; records are acknowledged from memory, a millisecond
after they were sent. `processor time` is that thread's alone, of the fastest of five rounds, free
of what broker and load take. `share` is of one more round under cProfile, which slows Python's own
calls down more than C's: compare shares, do not add them to times.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import time
from collections.abc import Sequence

import uvloop
from aiohttp import web
from harness import Result, arguments, report
from http_load import closed
from webhook_requests import SECRET, TENANTS, made

from ingress.http.connection import Listener
from ingress.http.router import Router
from ingress.receive.event_writer import EventWriter
from ingress.receive.key_maker import KeyMaker
from ingress.receive.quarantine import Quarantine
from ingress.receive.receiver import Receiver
from ingress.receive.rejections import Rejections
from ingress.tenants.references import References
from ingress.tenants.sources import SourceTable
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.tenants.settings import SourceSettings, source_record
from streams.topology.load import load
from streams.vault.key_encryption import local_vault
from streams.vault.keyring import DataKeyring

REQUESTS, CONNECTIONS, ROUNDS = 8_000, 64, 5
PARTS = {
    "body": "read_body",
    "signature": "_authenticate",
    "normalization, ids": "_event",
    "sealing, body's record": "store_body",
    "answer": "_answer",
}
"""Functions of the ingress, each with all that it calls."""


class Sources:
    """One source for each of the benchmark's tenants."""

    ready = True

    def __init__(self) -> None:
        vault = local_vault(b"b" * 32)
        self.table, self.book = SourceTable(vault, References()), DataKeyring(vault)
        for tenant in TENANTS:
            settings = SourceSettings(scheme="hmac-sha256")
            record = source_record(vault, tenant, "bench", settings, [SECRET], 1)
            self.table.apply(tenant_key(tenant, "source", "bench"), TENANT.encode(record))
        self.keys = KeyMaker(Acknowledged(self.book), vault, self.book, 4)


class Acknowledged:
    """A sender whose records are acknowledged together, a millisecond after the first of them."""

    def __init__(self, book: DataKeyring) -> None:
        self._book = book
        self._sent = 0
        self._waiting: list[asyncio.Future[int]] = []

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> int:
        if topic == "tenants":
            self._book.apply(key, value)
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_later(0.001, self._acknowledge)
        self._waiting.append(loop.create_future())
        return await self._waiting[-1]

    def _acknowledge(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            self._sent += 1
            future.set_result(self._sent)


def main() -> None:
    chosen = arguments(__doc__).parse_args()
    report("ingress_loop", uvloop.run(measure()), as_json=chosen.json)


async def measure() -> list[Result]:
    runner = await listening()
    port = int(runner.addresses[0][1])
    fresh = [await spent(port, made(REQUESTS)) for _ in range(ROUNDS)]
    known = made(200)
    await spent(port, known)
    again = [await spent(port, known * (REQUESTS // 200)) for _ in range(ROUNDS)]
    with cProfile.Profile() as profile:
        await spent(port, made(REQUESTS))
    await runner.cleanup()
    return [
        Result("fresh events", "processor time", min(fresh), "us/request"),
        Result("redeliveries", "processor time", min(again), "us/request"),
        *shares(pstats.Stats(profile)),
    ]


async def listening() -> web.ServerRunner:
    """An ingress as its process has it, but for Kafka."""
    topology, sources = load(), Sources()
    sender = Acknowledged(sources.book)
    writer = EventWriter(sender, sources.keys, topology.partitions)
    receiver = Receiver(sources.table, lambda: True, writer, Quarantine(sender, writer), topology)
    rejections = Rejections(sender, sources.table.known, topology.partitions)
    router = Router(receiver, lambda: True, rejections)
    runner = web.ServerRunner(Listener(router.handle, router.unread))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner


async def spent(port: int, requests: Sequence[bytes]) -> float:
    """Microseconds of this thread for each request; any answer but 2xx ends the benchmark."""
    started = time.thread_time()
    answers = await asyncio.to_thread(closed, port, requests, CONNECTIONS, 120)
    if not set(answers.statuses) <= {200, 202} or len(answers.latencies) != len(requests):
        raise SystemExit(f"answered {dict(answers.statuses)}")
    return round((time.thread_time() - started) / len(requests) * 1e6, 1)


def shares(stats: pstats.Stats) -> list[Result]:
    """Of all time under the profile: each part with what it calls, and all but the handler."""
    taken: dict[str, float] = {}
    for (file, _, name), (_, _, _, cumulative, _) in stats.stats.items():  # type: ignore[attr-defined]
        if "/ingress/" in file:
            taken[name] = max(taken.get(name, 0.0), cumulative)
    whole = stats.total_tt  # type: ignore[attr-defined]
    parts = {label: taken[name] for label, name in PARTS.items()}
    parts["envelope's record"] = taken["store"] - taken["store_body"]
    parts["HTTP, event loop"] = whole - taken["handle"]
    parts["between these"] = whole - sum(parts.values())
    return [
        Result(label, "share", round(part / whole * 100, 1), "%") for label, part in parts.items()
    ]


if __name__ == "__main__":
    main()

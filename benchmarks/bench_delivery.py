"""Outgoing webhooks of one delivery process, with a real broker on the same machine.

    python benchmarks/bench_delivery.py [--deliveries 8000] [--rounds 2] [--json]

Each event has its own sealed body of 1.5 KB. `one endpoint` is a backlog that the process sends to
a fast receiver of its own process; `bare` is an aiohttp client that posts as many bodies of the
size that the receiver gets, over as many connections, in turns in the same run. `100/s` are events
written at that pace: from the write to `events` to the POST at the receiver. `alone` and `beside
1,000 that hang` are the same for an endpoint that gets 20 events a second.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

from aiohttp import ClientSession, TCPConnector
from confluent_kafka import KafkaError, Message
from fast_receiver import HANGING
from harness import Result, arguments, broker_and_folder, create_topics, report
from outside import KEY, flush, percentiles, producer, stage, until

from streams.broker.ports import pick_free
from streams.serde.codec import ENVELOPE, TENANT
from streams.serde.ids import fingerprint, partition_for
from streams.serde.keys import tenant_key
from streams.serde.records import Envelope, PayloadRef
from streams.tenants.endpoints import EndpointSettings, endpoint_key, endpoint_record
from streams.topology.load import load
from streams.vault.data_key import DataKey, new_key_record
from streams.vault.key_encryption import local_vault

HERE = Path(__file__).parent
TOPOLOGY = load()
VAULT = local_vault(KEY)
SECRET = b"whsec_" + b"c2VjcmV0" * 4
BODY = b'{"text": "' + b"x" * 1_480 + b'"}'
SENT_BYTES = 1_900
"""About the size of the CloudEvents document with that body."""
CONNECTIONS = 32
EGRESS = {
    "TIDEGATE_EGRESS_ALLOW_NETWORKS": "127.0.0.0/8",
    "TIDEGATE_EGRESS_ALLOW_HTTP": "true",
    "TIDEGATE_EGRESS_CONNECTIONS_PER_HOST": str(CONNECTIONS),
}


class Writes(Protocol):
    """Gives a sender of webhooks its endpoints and events; `sent` is when it got each event."""

    sent: dict[str, float]

    def endpoint(self, tenant: str, id_: str, url: str) -> None: ...

    def events(self, tenant: str, ids: list[str]) -> None: ...


class World:
    """Writes what ingress, dedup and operator would write for one tenant each."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = producer(bootstrap, 2)
        self._keys: dict[str, DataKey] = {}
        self.sent: dict[str, float] = {}

    def endpoint(self, tenant: str, id_: str, url: str) -> None:
        """Set an endpoint, and make the tenant's data key."""
        if tenant not in self._keys:
            record = new_key_record(VAULT, tenant)
            self._keys[tenant] = DataKey(VAULT, record)
            self._set(tenant, "data_key", record.id, TENANT.encode(record))
        settings = EndpointSettings(url=url)
        key = endpoint_key(VAULT, tenant, id_, SECRET)
        record = endpoint_record(VAULT, tenant, id_, settings, [key], {}, 1)
        self._set(tenant, "endpoint", id_, TENANT.encode(record))

    def events(self, tenant: str, ids: list[str], type_: str = "order.paid") -> None:
        """Write bodies, then their events."""
        key, refs = self._keys[tenant], dict[str, PayloadRef]()

        def stored(event_id: str, error: KafkaError | None, message: Message) -> None:
            place = message.partition() or 0, (message.offset() or 0,)
            refs[event_id] = PayloadRef(*place, len(BODY), key.key_id)

        for event_id in ids:
            self._producer.produce(
                "payloads",
                key.seal(event_id, 0, BODY),
                tenant.encode(),
                _home(tenant),
                on_delivery=partial(stored, event_id),
            )
            self._producer.poll(0)
        flush(self._producer)
        for event_id in ids:
            value = ENVELOPE.encode(_envelope(tenant, event_id, type_, refs[event_id]))
            self.sent[event_id] = time.time()
            self._producer.produce("events", value, tenant.encode(), _home(tenant))
            self._producer.poll(0)
        flush(self._producer)

    def _set(self, tenant: str, kind: str, id_: str, value: bytes) -> None:
        self._producer.produce("tenants", value, tenant_key(tenant, kind, id_), _home(tenant))
        flush(self._producer)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--deliveries", type=int, default=8_000)
    parser.add_argument("--rounds", type=int, default=2)
    chosen = parser.parse_args()
    with broker_and_folder() as (bootstrap, folder), receiver() as url:
        create_topics(bootstrap, TOPOLOGY, tuple(TOPOLOGY.topics))
        world = World(bootstrap)
        with stage("delivery", bootstrap, folder, env=EGRESS) as process:
            rows = [*speed(world, url, process, chosen.deliveries, chosen.rounds)]
            rows += latency(world, url, process)
            rows += hanging(world, url, process)
    report("delivery", rows, as_json=chosen.json)


def speed(
    world: World, url: str, process: subprocess.Popen[bytes], count: int, rounds: int
) -> Iterator[Result]:
    """Deliveries a second beside those of a bare client, in turns."""
    world.endpoint("fast", "crm", f"{url}/ok")
    send(world, url, process, "fast", "warm", 500)
    ours, bares = [], []
    for number in range(rounds):
        bares.append(asyncio.run(bare(f"{url}/ok", count)))
        ours.append(send(world, url, process, "fast", f"round{number}", count))
    ours_best, bare_best = max(ours), max(bares)
    yield Result("one endpoint", "deliveries", round(ours_best, 1), "1/s")
    yield Result("bare", "posts", round(bare_best, 1), "1/s")
    yield Result("one endpoint", "to bare", round(ours_best / bare_best, 2), "x")


def send(
    world: Writes, url: str, process: subprocess.Popen[bytes], tenant: str, name: str, count: int
) -> float:
    """Deliveries a second from the first to the last of a backlog that is written at once."""
    ids = [f"evt_{name}_{number}" for number in range(count)]
    world.events(tenant, ids)
    came = all_came(url, process, ids)
    return count / (max(came) - min(came))


def latency(world: Writes, url: str, process: subprocess.Popen[bytes]) -> list[Result]:
    world.endpoint("steady", "crm", f"{url}/ok")
    return percentiles("100/s", "event to POST", paced(world, url, process, "steady", 100, 10))


def hanging(world: Writes, url: str, process: subprocess.Popen[bytes]) -> list[Result]:
    """A healthy endpoint alone, and beside a thousand hosts that take messages and never answer."""
    world.endpoint("healthy", "crm", f"{url}/ok")
    alone = percentiles("alone", "20/s", paced(world, url, process, "healthy", 20, 30))
    hang(world, url, process)
    took = paced(world, url, process, "healthy", 20, 30)
    beside = percentiles("beside 1,000 that hang", "20/s", took)
    ratio = Result("beside 1,000 that hang", "p99, to alone", beside[1].value / alone[1].value, "x")
    return [*alone, *beside, ratio]


def hang(world: Writes, url: str, process: subprocess.Popen[bytes]) -> None:
    """Three events for each of a thousand hosts that take messages and never answer."""
    for number, host in enumerate(HANGING):
        world.endpoint("hanging", f"h{number}", f"{url.replace('127.0.0.1', host)}/hang")
    for number in range(3):
        world.events("hanging", [f"evt_hang_{number}"])
    until(lambda: stats(url).keys() >= {"hang evt_hang_0"}, process, "the first one hangs")


def paced(
    world: Writes, url: str, process: subprocess.Popen[bytes], tenant: str, rate: int, seconds: int
) -> list[float]:
    """Seconds from the write of each event to its POST."""
    ids = at_pace(world, tenant, rate, seconds)
    all_came(url, process, ids)
    came = stats(url)
    return [came[event_id] - world.sent[event_id] for event_id in ids]


def at_pace(world: Writes, tenant: str, rate: int, seconds: int) -> list[str]:
    """Write so many events a second; their ids."""
    name, began = f"{tenant}{time.monotonic_ns()}", time.monotonic()
    ids = [f"evt_{name}_{number}" for number in range(rate * seconds)]
    for number, event_id in enumerate(ids):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        world.events(tenant, [event_id])
    return ids


def all_came(url: str, process: subprocess.Popen[bytes], ids: list[str]) -> list[float]:
    """When each of these came; waits until the last has."""

    def complete() -> bool:
        time.sleep(0.2)
        return set(ids) <= stats(url).keys()

    until(complete, process, f"{len(ids)} deliveries", 300)
    came = stats(url)
    return [came[event_id] for event_id in ids]


def stats(url: str) -> dict[str, float]:
    with urllib.request.urlopen(url) as answer:
        found: dict[str, float] = json.load(answer)
    return found


async def bare(url: str, count: int) -> float:
    """Posts a second of a client that does nothing else."""
    body = b"x" * SENT_BYTES
    left = iter(range(count))

    async def post(session: ClientSession) -> None:
        for _ in left:
            async with session.post(url, data=body) as answer:
                await answer.read()

    async with ClientSession(connector=TCPConnector(limit=CONNECTIONS)) as session:
        began = time.monotonic()
        await asyncio.gather(*(post(session) for _ in range(CONNECTIONS)))
        return count / (time.monotonic() - began)


@contextmanager
def receiver() -> Iterator[str]:
    """The fast receiver's URL, while it runs."""
    port = pick_free(frozenset())
    command = [sys.executable, str(HERE / "fast_receiver.py"), str(port)]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command) as process:
        try:
            until(lambda: _answers(url), process, "the receiver answers")
            yield url
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        return stats(url) is not None
    except OSError:
        return False


def _home(tenant: str) -> int:
    return partition_for(tenant, TOPOLOGY.partitions)


def _envelope(tenant: str, event_id: str, type_: str, ref: PayloadRef) -> Envelope:
    return Envelope(
        fingerprint=fingerprint(tenant, "shop", event_id),
        event_id=event_id,
        source="shop",
        tenant_id=tenant,
        event_type=type_,
        occurred_at=None,
        received_at=round(time.time() * 1000),
        payload_hash=b"h" * 32,
        dedup_key=event_id,
        subject=None,
        content_type="application/json",
        delivery_id=None,
        request_id=None,
        payload_ref=ref,
        attributes={},
        priority="webhook",
    )


if __name__ == "__main__":
    main()

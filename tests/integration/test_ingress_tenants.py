"""Tenants, sources, secrets and rates over two ingress processes, an operator and a real broker."""

from __future__ import annotations

import asyncio
import os
import socket
import time
import uuid
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr
from support.conditions import Waited, eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import TOKEN, RunningOperator, running
from support.stage_process import Cluster, StageProcess
from support.webhooks import signed

from ingress.rates.shares import BURST
from streams.cli.api_client import CallFailed
from streams.limits.backlog import Line, report_of
from streams.serde.codec import BACKLOG
from streams.settings import Settings
from streams.topology.load import load

pytestmark = pytest.mark.broker

LIVE_SECONDS = 2.0
"""Within which every ingress goes by what the API answered."""
SHOP = "/v1/tenants/acme/sources/shop"
HMAC = {"scheme": "hmac-sha256"}


@dataclass
class Edge:
    """Two ingress processes on ports of their own, and the operator that sets their tenants."""

    operator: RunningOperator
    cluster: Cluster
    folder: Path
    secret_file: Path
    processes: list[StageProcess] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)

    def start(self, index: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        environ = self.cluster.environ(self.folder, str(index)) | {
            "TIDEGATE_PORT": str(port),
            "TIDEGATE_VAULT_KEY_FILE": str(self.folder / "vault.key"),
            "HOOK_SECRET": "from-env",
            "TIDEGATE_TOPOLOGY": str(self.folder / "mine.yaml"),
        }
        log = self.folder / f"ingress-{uuid.uuid4().hex[:6]}.log"
        self.processes[index:] = [
            StageProcess("ingress_stage", log, environ),
            *self.processes[index + 1 :],
        ]
        self.ports[index:] = [port, *self.ports[index + 1 :]]

    def ready(self) -> None:
        for process in self.processes:
            process.wait_for("tenants are known")

    def joined(self, index: int) -> None:
        """A process started anew is ready: it knows its share of the rates, or why it has none."""
        ready = f"http://127.0.0.1:{self.ports[index]}/readyz"
        eventually(lambda: answers(ready) == 200, what="the new process is ready")

    async def statuses(self, secret: bytes, path: str = "acme/shop") -> list[int]:
        """What each process answers to a new event, signed so."""
        async with aiohttp.ClientSession() as session:
            return [await self._deliver(session, port, path, secret) for port in self.ports]

    async def _deliver(
        self, session: aiohttp.ClientSession, port: int, path: str, secret: bytes
    ) -> int:
        body = b'{"id":"%s"}' % uuid.uuid4().hex.encode()
        url = f"http://127.0.0.1:{port}/v1/hooks/{path}"
        async with session.post(url, data=body, headers=signed(body, secret)) as response:
            return response.status

    def live(
        self, status: int, secret: bytes, path: str = "acme/shop", *, after: float = 0.0
    ) -> None:
        """Every process answers so within two seconds from now, or from `after` seconds on."""
        eventually(
            lambda: asyncio.run(self.statuses(secret, path)) == [status] * len(self.ports),
            after + LIVE_SECONDS,
            what=f"{status} for {secret!r} on every ingress",
        )


@pytest.fixture
def edge(kafka: KafkaUnderTest, tmp_path: Path) -> Iterator[Edge]:
    with edges(kafka, tmp_path) as found:
        yield found


@contextmanager
def edges(
    kafka: KafkaUnderTest, tmp_path: Path, *left_out: str, overlay: str = ""
) -> Iterator[Edge]:
    """Two processes that are ready; of the topology's topics some are not there.

    `overlay` is laid over the built-in topology.
    """
    (tmp_path / "mine.yaml").write_text(overlay)
    topology = load(tmp_path / "mine.yaml")
    cluster = Cluster(kafka, topology)
    cluster.create(*left_out)
    (tmp_path / "vault.key").write_bytes(os.urandom(32))
    settings = Settings(
        bootstrap=kafka.bootstrap,
        kafka={"log_level": "0", **kafka.client_settings},
        topic_prefix=cluster.prefix,
        data_dir=tmp_path / "operator",
        admin_token=SecretStr(TOKEN),
        vault_key_file=(tmp_path / "vault.key",),
    )
    with running(settings, topology) as operator:
        found = Edge(operator, cluster, tmp_path, tmp_path / "mounted")
        operator.send("PUT", "/v1/tenants/acme", {})
        for index in range(2):
            found.start(index)
        try:
            found.ready()
            yield found
        finally:
            for process in found.processes:
                process.kill()


def test_what_the_api_sets_is_live_on_both_within_two_seconds_and_after_a_restart(
    edge: Edge,
) -> None:
    put = edge.operator.send
    put("PUT", SHOP, {**HMAC, "secret": "one"})
    edge.live(202, b"one")
    put("PUT", SHOP, {**HMAC, "secret": "two"})
    edge.live(401, b"one")
    edge.live(202, b"two")
    put("DELETE", "/v1/tenants/acme")
    edge.live(401, b"two")
    put("PUT", "/v1/tenants/acme", {})
    edge.live(202, b"two")
    for index in range(2):
        edge.processes[index].kill()
        edge.start(index)
    edge.ready()
    assert asyncio.run(edge.statuses(b"two")) == [202, 202]
    put("DELETE", SHOP)
    edge.live(401, b"two")
    for index in range(2):
        edge.processes[index].kill()
        edge.start(index)
    edge.ready()
    assert asyncio.run(edge.statuses(b"two")) == [401, 401]


def test_a_rotation_is_live_on_both_and_its_old_secret_ends_by_itself(edge: Edge) -> None:
    edge.operator.send("PUT", SHOP, {**HMAC, "secret": "old"})
    edge.live(202, b"old")
    edge.operator.send("POST", f"{SHOP}/rotate", {"secret": "new", "overlap_seconds": 3600})
    edge.live(202, b"new")
    assert asyncio.run(edge.statuses(b"old")) == [202, 202]
    assert edge.operator.get(SHOP)["secrets"] == 2
    for port in edge.ports:
        assert 'old_key_matches_total{scheme="hmac-sha256"} 1.0' in metrics(port)
    edge.operator.send("POST", f"{SHOP}/rotate", {"secret": "newest", "overlap_seconds": 1})
    edge.live(202, b"newest")
    edge.live(401, b"new", after=1)
    for holds in (b"newest", b"old"):
        assert asyncio.run(edge.statuses(holds)) == [202, 202]
    shown = edge.operator.get(SHOP)
    assert (shown["secrets"], len(shown["old_secrets"])) == (2, 1), "the long overlap goes on"


def test_secrets_by_reference_are_each_ingress_s_own_and_a_mounted_one_changes_in_place(
    edge: Edge,
) -> None:
    edge.operator.send("PUT", SHOP, {**HMAC, "secret_ref": "env:HOOK_SECRET"})
    edge.live(202, b"from-env")
    edge.operator.send("PUT", SHOP, {**HMAC, "secret_ref": f"file:{edge.secret_file}"})
    edge.live(401, b"from-env")
    for process in edge.processes:
        process.wait_for("a source's secret cannot be resolved")
    edge.secret_file.write_text("first\n")
    edge.live(202, b"first")
    edge.secret_file.write_text("second\n")
    edge.live(202, b"second")
    edge.live(401, b"first")
    edge.secret_file.unlink()
    edge.live(401, b"second")


def metrics(port: int) -> str:
    async def read() -> str:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/metrics") as response,
        ):
            return await response.text()

    return asyncio.run(read())


@dataclass(frozen=True)
class Told:
    """What a delivery was told: when, by which process, its status, and its `Retry-After`."""

    at: float
    process: int
    status: int
    retry_after: int


class Flood:
    """Senders that keep both processes over the rate; what each delivery was told."""

    def __init__(self, edge: Edge, lanes: dict[int, int]) -> None:
        self._edge = edge
        self._lanes = lanes
        self.told: list[Told] = []

    def full(self, since: float) -> list[float]:
        """The spans of two seconds from then on that began and ended with a refusal by each
        process: no sender was too slow to use up what they allowed.

        Each is given by its beginning; together they have no second twice.
        """
        found: list[float] = []
        refused = [each for each in self.told if each.status == 429 and each.at >= since]
        for at in (each.at for each in refused):
            if found and at < found[-1] + 2:
                continue
            parts = {(each.process, int((each.at - at) * 4)) for each in refused}
            if all((process, part) in parts for process in self._lanes for part in (0, 7)):
                found.append(at)
        return found

    def idle(self, since: float) -> float:
        """Seconds of the two from then on in which the first process lost its tokens.

        Its bucket is empty at a refusal. If no sender asks until it is full again, because the
        machine is busy, what comes after that is lost, and no fault of the rate.
        """
        asked = [each.at for each in self.told if each.process == 0 and each.status == 429]
        within = [at for at in asked if since <= at < since + 2]
        waits = (after - before for before, after in pairwise([since, *within, since + 2]))
        return sum(max(0.0, wait - 2 * BURST) for wait in waits)

    async def run(self, script: Callable[[], Any]) -> None:
        over = asyncio.Event()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            lanes = [
                asyncio.create_task(self._lane(session, index, over))
                for index, count in self._lanes.items()
                for _ in range(count)
            ]
            try:
                await script()
            finally:
                over.set()
                await asyncio.gather(*lanes)

    async def _lane(self, session: aiohttp.ClientSession, index: int, over: asyncio.Event) -> None:
        while not over.is_set():
            body = b'{"id":"%s"}' % uuid.uuid4().hex.encode()
            url = f"http://127.0.0.1:{self._edge.ports[index]}/v1/hooks/acme/shop"
            try:
                async with session.post(url, data=body, headers=signed(body, b"s")) as response:
                    after = int(response.headers.get("Retry-After", 0))
                    self.told.append(Told(time.time(), index, response.status, after))
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)  # the process is being started again
            await asyncio.sleep(0.01)


@dataclass
class Passed:
    """The times at which the broker took the deliveries that passed, in seconds of the epoch."""

    times: list[float]

    def within(self, since: float) -> int:
        """How many in the two seconds from then on."""
        return bisect_left(self.times, since + 2) - bisect_left(self.times, since)

    def usually(self, spans: list[float]) -> float:
        """The median of the spans: a standstill of ours spoils two of five at most."""
        return median(map(self.within, spans))


def reporting(edge: Edge) -> set[bytes | None]:
    """The ingress processes that have told of their demand."""
    return {process for process, _ in edge.cluster.pairs("ingress.rates")}


@pytest.mark.chaos
def test_a_rate_holds_within_a_tenth_over_two_processes_and_over_a_restart_of_one(
    edge: Edge,
) -> None:
    per_second = 50
    edge.operator.send("PUT", SHOP, {**HMAC, "secret": "s"})
    edge.live(202, b"s")
    eventually(lambda: len(reporting(edge)) == 2, what="both processes tell of their demand")
    rate = {"count": per_second * 2, "seconds": 2}
    edge.operator.send("PUT", "/v1/tenants/acme", {"rate": rate})
    flood = Flood(edge, {0: 6, 1: 2})
    phases: list[list[float]] = []
    before_the_kill: set[int] = set()

    async def measured(*, settle: int) -> None:
        """Five full spans, after some in which the rate becomes known and the shares settle."""
        began, waited = time.time(), Waited(60)
        while len(spans := flood.full(began)) < settle + 5:
            waited.looked()
            assert not waited.over, "the senders are too slow to use up the rate"
            await asyncio.sleep(0.5)
        phases.append(spans[settle:])

    async def script() -> None:
        await measured(settle=2)
        before_the_kill.update(told.status for told in flood.told)
        edge.processes[0].kill()
        await asyncio.to_thread(edge.start, 0)
        await asyncio.to_thread(edge.joined, 0)
        await measured(settle=3)

    asyncio.run(flood.run(script))
    received = edge.cluster.read("events.received")
    passed = Passed(sorted(m.timestamp()[1] / 1000 for m in received))
    for spans in phases:
        usable = median(2 - 6 / 8 * flood.idle(at) for at in spans)  # six of eight senders ask it
        assert passed.usually(spans) >= 0.9 * per_second * usable
        assert passed.usually(spans) <= 1.1 * per_second * 2
    windows = [passed.within(at) for at in passed.times if at >= phases[0][0]]
    taken_late = 0.1 * per_second  # what the broker is slow to take counts in a later span
    assert max(windows) <= 1.1 * per_second * 2 + taken_late
    assert before_the_kill == {202, 429}, "a tenant's first rate is kept at once"
    assert {told.status for told in flood.told} <= {202, 429, 503}
    assert all(told.retry_after >= 1 for told in flood.told if told.status == 429)


def answers(url: str, send: bytes | None = None) -> int:
    """The status of a GET, or of a signed delivery; 0 where nobody listens yet."""

    async def ask() -> int:
        async with aiohttp.ClientSession() as session:
            method = "GET" if send is None else "POST"
            headers = signed(send, b"s") if send else None
            async with session.request(method, url, data=send, headers=headers) as response:
                return response.status

    try:
        return asyncio.run(ask())
    except aiohttp.ClientError:
        return 0


def test_a_process_is_ready_only_when_it_knows_its_share_of_the_rates(edge: Edge) -> None:
    edge.operator.send("PUT", SHOP, {**HMAC, "secret": "s"})
    edge.operator.send("PUT", "/v1/tenants/acme", {"rate": {"count": 1_000, "seconds": 10}})
    edge.live(202, b"s")
    edge.processes[0].kill()
    edge.start(0)
    edge.joined(0)
    url = f"http://127.0.0.1:{edge.ports[0]}"
    first = answers(f"{url}/v1/hooks/acme/shop", b'{"id":"first"}')
    assert first in {202, 429}  # its bucket is empty when it joins, but it is kept


def test_while_demand_cannot_be_told_a_rate_is_answered_503_and_no_rate_is_none_the_wiser(
    kafka: KafkaUnderTest, tmp_path: Path
) -> None:
    with edges(kafka, tmp_path, "ingress.rates") as edge:
        edge.operator.send("PUT", SHOP, {**HMAC, "secret": "s"})
        edge.live(202, b"s")
        rate = {"count": 1_000, "seconds": 10}
        edge.operator.send("PUT", "/v1/tenants/acme", {"rate": rate})
        edge.live(503, b"s")
        for process in edge.processes:
            process.wait_for("rates cannot be kept")
        edge.processes[0].kill()
        edge.start(0)
        edge.joined(0)  # without a share
        edge.cluster.create(*(name for name in load().topics if name != "ingress.rates"))
        eventually(
            lambda: asyncio.run(edge.statuses(b"s")) == [202, 202],
            what="the rate is kept once its topic is there",
        )
        edge.operator.send("PUT", "/v1/tenants/acme", {})
        edge.live(202, b"s")


def test_a_full_backlog_is_answered_429_by_all_and_after_a_restart(
    kafka: KafkaUnderTest, tmp_path: Path
) -> None:
    overlay = (
        "routes: [{match: {source: shop}, job: pack}]\nmax_queued: [{scope: tenant, jobs: 3}]\n"
    )
    with edges(kafka, tmp_path, overlay=overlay) as edge:

        def waiting(jobs: int) -> None:
            report = report_of(2, {Line("tenant", "acme"): jobs})
            edge.cluster.send("jobs.backlog", [(b"2", BACKLOG.encode(report))], 2)

        edge.operator.send("PUT", SHOP, {**HMAC, "secret": "s"})
        waiting(2)
        edge.live(202, b"s")
        waiting(3)
        edge.live(429, b"s")
        eventually(
            lambda: edge.operator.get("/v1/backlog")["backlog"][0]["full"], what="it is shown"
        )
        with pytest.raises(CallFailed, match="3 jobs of tenant 'acme' wait, and max_queued lets 3"):
            edge.operator.send("POST", "/v1/tenants/acme/jobs", {"type": "pack"})
        edge.processes[0].kill()
        edge.start(0)
        edge.joined(0)
        assert asyncio.run(edge.statuses(b"s")) == [429, 429]
        edge.cluster.send("jobs.backlog", [(b"2", None)], 2)
        edge.live(202, b"s")

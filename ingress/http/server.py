"""The ingress process: an HTTP listener that starts without Kafka and drains before it ends."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from functools import partial

import structlog
import uvloop
from aiohttp import web

from ingress.http.connection import Listener
from ingress.http.public_port import BACKLOG, PublicPort, inherited
from ingress.http.router import Elsewhere, Router
from ingress.rates.backlog import BacklogReader
from ingress.rates.gossip import RateGossip
from ingress.rates.shares import Rates
from ingress.receive.allocator import release_large_blocks
from ingress.receive.dead_letters import DeadLetters
from ingress.receive.event_writer import EventWriter
from ingress.receive.key_maker import KeyMaker
from ingress.receive.quarantine import Quarantine
from ingress.receive.receiver import DEADLINE_SECONDS, Receiver
from ingress.receive.rejections import Rejections
from ingress.tenants.addressing import addressing
from ingress.tenants.references import References
from ingress.tenants.sources import SourceTable
from streams.http.forward import Origin, forward, forwarding_session
from streams.kafka.clients import AwaitedProducer
from streams.probe_routes import listen_on
from streams.process.garbage import collect_seldom
from streams.process.shutdown import ProcessEnd
from streams.settings import Settings
from streams.telemetry import show_ready
from streams.tenants.follower import Failed, TenantsFollower
from streams.topology.model import Topology
from streams.vault.key_encryption import Vault, open_vault
from streams.vault.keyring import DataKeyring

log = structlog.get_logger(__name__)

KEEPALIVE_SECONDS = 15.0
"""A connection may be without a complete request head for this long, also at its start."""
LINGERING_SECONDS = 2.0
"""A refused body is read and dropped for this long. If the connection closed at once, TCP could
discard the answer before a sender that still sends has read it (RFC 9112, section 9.6)."""
DRAIN_SECONDS = 0.5
"""The time between "not ready" and a closed listener, so that load balancers notice."""
GRACE_SECONDS = 10.0
"""Requests under way at shutdown get this long; a delivery's own deadlines are shorter."""
_COLLECT_AFTER = 5_000
"""New objects after which Python looks for cyclic garbage: after 700, a tenth of the time went. An
answered request leaves none, and one that ends unread some 20 objects and one read of the socket,
at most 256 KiB."""
_LAST_REPORTS_SECONDS = 2.0
"""The last counts of rejections and the last dead letters get this long."""


class IngressServer:
    """One listener with its sources and its producer; belongs to one event loop.

    `public` is a port that it shares with others. `failed` is called, from any thread, with an
    error that must end the process.
    """

    def __init__(
        self,
        settings: Settings,
        topology: Topology,
        vault: Vault,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
        keepalive_seconds: float = KEEPALIVE_SECONDS,
        public: PublicPort | None = None,
        failed: Failed = lambda _: None,
    ) -> None:
        self._settings = settings
        self._references = References()
        table, book = SourceTable(vault, self._references), DataKeyring(vault, seals_only=True)
        rates = Rates(table.rates)
        self._gossip = RateGossip(settings, rates, failed)
        self._backlog = BacklogReader(settings, topology, failed)
        self._producer = _producer(settings, deadline_seconds)
        letters = DeadLetters(self._producer, topology.partitions)

        def fold(key: bytes | None, value: bytes | None) -> None:
            book.apply(key, value)
            table.apply(key, value)

        self._follower = TenantsFollower(
            settings, topology, "ingress", fold, letters.refuse, failed
        )
        keys = KeyMaker(self._producer, vault, book, topology.partitions)
        writer = EventWriter(self._producer, keys, topology.partitions)
        receiver = Receiver(
            table,
            lambda: self._follower.ready,
            writer,
            Quarantine(self._producer, writer),
            topology,
            wait=rates.wait,
            full=self._backlog.full,
            deadline_seconds=deadline_seconds,
            in_flight_bytes=settings.in_flight_bytes,
        )
        rejections = Rejections(self._producer, table.known, topology.partitions)
        self._router = Router(receiver, self._ready, rejections, addressing(settings))
        self._reports = (rejections, letters)
        self._writing: list[asyncio.Task[None]] = []
        self._keepalive = keepalive_seconds
        self._public = public
        self._runners: list[web.ServerRunner] = []
        self._stack = AsyncExitStack()

    async def start(self) -> int:
        """Listen, then begin to follow the sources; returns the bound port.

        Raises:
            ConfigError: the address cannot be listened on.
        """
        bound = await self._listen()
        if self._public is not None:
            await self._share(self._public)
        show_ready(["ingress"], self._ready)
        self._follower.start()
        self._writing = [asyncio.create_task(each.run()) for each in self._reports]
        self._references.start()
        self._gossip.start()
        self._backlog.start()
        log.info("ingress listens", host=self._settings.host, port=bound)
        return bound

    async def _listen(self) -> int:
        """Listen on the ingress's own port; returns its number."""
        runner = await self._runner()
        host, port = self._settings.host, self._settings.port
        site = web.TCPSite(runner, host, port, reuse_port=True, backlog=BACKLOG)
        await listen_on(site, host, port)
        return int(runner.addresses[0][1])

    async def _share(self, public: PublicPort) -> None:
        """Answer the webhooks of a port that other servers share."""
        session = await self._stack.enter_async_context(forwarding_session())
        origins = [Origin("the operator's API", public.rest)]
        runner = await self._runner(lambda request: forward(session, request, origins))
        await web.SockSite(runner, public.listener, backlog=BACKLOG).start()

    async def _runner(self, elsewhere: Elsewhere | None = None) -> web.ServerRunner:
        server = Listener(
            partial(self._router.handle, elsewhere=elsewhere),
            self._router.unread,
            keepalive_timeout=self._keepalive,
            lingering_time=LINGERING_SECONDS,
        )
        runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await runner.setup()
        self._runners.append(runner)
        return runner

    def _ready(self) -> bool:
        return self._follower.ready and self._gossip.settled and self._backlog.settled

    async def stop(self) -> None:
        """Report not ready, then refuse new connections, then wait for requests under way."""
        self._router.drain()
        await asyncio.sleep(DRAIN_SECONDS)
        for site in [site for runner in self._runners for site in runner.sites]:
            await site.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await self._router.idle()
        for runner in self._runners:
            await runner.cleanup()
        await self._stack.aclose()
        await asyncio.to_thread(self._follower.stop)
        await self._write_reports()
        await self._producer.close()
        await asyncio.to_thread(self._references.stop)
        await asyncio.to_thread(self._gossip.stop)
        await asyncio.to_thread(self._backlog.stop)
        log.info("ingress ended")

    async def _write_reports(self) -> None:
        for task in self._writing:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_REPORTS_SECONDS):
                await asyncio.gather(*(each.flush() for each in self._reports))


def run(settings: Settings, topology: Topology) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        ConfigError: no usable vault key, settings that do not fit each other, the address cannot be
            listened on, or a topic has other than its declared number of partitions.
        StageFailed: its copy of `tenants` is no longer updated, or rates are no longer kept.
    """
    vault = open_vault(settings)
    release_large_blocks()
    uvloop.run(_serve(settings, topology, vault))


async def _serve(settings: Settings, topology: Topology, vault: Vault) -> None:
    end = ProcessEnd()
    server = IngressServer(settings, topology, vault, public=inherited(), failed=end.failed)
    await server.start()
    collect_seldom(_COLLECT_AFTER)
    try:
        await end.wait()
    finally:
        await server.stop()


def _producer(settings: Settings, deadline_seconds: float) -> AwaitedProducer:
    """A producer that gives up once nobody waits, and reconnects soon after a broker outage."""
    deadline_ms = int(deadline_seconds * 1000)
    return AwaitedProducer(
        settings,
        **{
            "message.timeout.ms": deadline_ms,
            "socket.timeout.ms": deadline_ms + 1_000,
            "queue.buffering.max.kbytes": 256 * 1024,
        },
    )

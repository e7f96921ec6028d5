"""The operator's process: it follows the topics and serves the API until it is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import structlog
import uvloop
from aiohttp import web
from confluent_kafka import Message
from prometheus_client import REGISTRY

from streams.access.authentication import Authentication
from streams.access.book import AccessBook
from streams.access.permissions import all_roles
from streams.access.session_ends import SessionEnds
from streams.api import STAGE
from streams.api.artifacts.sweep import sweep_for_ever
from streams.api.audited_writes import AuditedWrites
from streams.api.bulk.dealing import deal
from streams.api.jobs.job_request import MAX_INPUT_BYTES
from streams.api.live import table as live
from streams.api.live.http import STREAMS, Streams
from streams.api.live.hub import Hub
from streams.api.live.rounds import Look, SharedReads, Tenants
from streams.api.live.tickets import Tickets
from streams.api.operator_state import SETTINGS_WRITER, AppState
from streams.api.read_model.database import Database
from streams.api.read_model.follower import Follower
from streams.api.read_model.projections import kept_ms
from streams.api.read_model.read_barrier import ReadBarrier
from streams.api.read_model.row_notifier import RowNotifier
from streams.api.serving.access import ACCESS, OPEN_PATHS, Access, authenticated
from streams.api.serving.call import require_declared
from streams.api.serving.middlewares import (
    caught_up,
    newline_ended,
    problems,
    traced,
)
from streams.api.serving.problems import not_ready
from streams.api.serving.routes import routes
from streams.api.serving.session import DESK, renew_cookie
from streams.api.serving.state import STATE
from streams.api.session.desk import sign_in_desk
from streams.api.tenants import table as tenants
from streams.api.tokens.upkeep import keep_tokens, require_administrator, write_uses
from streams.artifacts.store import open_store
from streams.audit.chain import Head
from streams.bulk import carrier as bulk
from streams.console.serving.routes import add_console
from streams.delivery.egress.configured import egress_policy
from streams.errors import KafkaUnavailable, PoisonRecord
from streams.event_admission import Admissions
from streams.event_replay.carrier import carrier
from streams.event_replay.eligibility import Reason
from streams.event_replay.preview import Preview
from streams.kafka.clients import AwaitedProducer
from streams.kafka.fenced_write import FencedWrites
from streams.kafka.payload_reader import PayloadReader
from streams.kafka.payload_thread import payload_thread
from streams.operator.broker_view import broker_view
from streams.operator.key_age import KeyAgeCollector
from streams.operator.metrics import ReadModelCollector
from streams.probe_routes import probe_routes, served
from streams.process.garbage import collect_seldom
from streams.process.shutdown import ProcessEnd
from streams.process.wall_clock import wall_ms
from streams.served_tls import served_tls
from streams.settings import Settings
from streams.tenants.follower import Failed, Fold, TenantsFollower
from streams.topology.model import Topology
from streams.vault.key_encryption import Vault, open_vault
from streams.vault.keyring import DataKeyring

log = structlog.get_logger(__name__)

MAX_BODY_BYTES = MAX_INPUT_BYTES + 16 * 1024
"""The limit of a request: the largest input, and the JSON around it."""

_ACKNOWLEDGED_WITHIN_MS = 5_000
_KEEP_ALIVE_SECONDS = 30.0
_COLLECT_AFTER = 5_000
"""New objects after which Python looks for cyclic garbage: after 700, a tenth of the time went."""


def run(settings: Settings, topology: Topology, admissions: Admissions) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        ConfigError: no admin token, no vault key, the port is taken, or a topic has other than its
            declared number of partitions.
        StageFailed: a thread that the answers depend on has failed.
    """
    collect_seldom(_COLLECT_AFTER)
    uvloop.run(_serve(settings, topology, admissions))


def build(
    settings: Settings,
    topology: Topology,
    admissions: Admissions,
    failed: Failed = lambda _: None,
) -> web.Application:
    """Return the application; it follows the topics from its start-up to its clean-up.

    `failed` is called, from any thread, with an error that must end the process.

    Raises:
        ConfigError: no admin token or no vault key.
    """
    vault = open_vault(settings)
    access = _access(settings, topology, vault, lambda: app[STATE].ready())  # noqa: PLW0108  as below
    guards = [newline_ended, problems, authenticated(access), traced, caught_up]
    app = web.Application(middlewares=guards, client_max_size=MAX_BODY_BYTES)
    app[ACCESS], ends = access, SessionEnds()

    async def state(app: web.Application) -> AsyncIterator[None]:
        async for each in _state(settings, topology, vault, admissions, failed, access, ends):
            app[STATE] = each
            app[STREAMS] = _streams(settings, topology, each, access.tickets)
            watching = asyncio.create_task(app[STREAMS].watch.run())
            yield
            watching.cancel()
            await app[STREAMS].hub.reads.close()

    async def signing_in(app: web.Application) -> AsyncIterator[None]:
        standing = access.authentication.standing
        async with sign_in_desk(settings, topology, vault, ends, standing) as desk:
            app[DESK] = desk
            yield

    app.cleanup_ctx.extend([state, signing_in])
    app.on_response_prepare.append(renew_cookie)
    app.on_shutdown.append(_end_streams)
    app.add_routes(probe_routes(lambda: app[STATE].ready()))  # noqa: PLW0108  set at the start-up
    app.add_routes(routes())
    add_console(app)
    require_declared(app, OPEN_PATHS)
    return app


def _access(
    settings: Settings, topology: Topology, vault: Vault, is_known: Callable[[], bool]
) -> Access:
    """Return what tells who calls.

    Raises:
        ConfigError: the admin token is to be taken, and there is none.
    """
    takes = settings.take_admin_token
    bootstrap = settings.required_admin_token("the operator's") if takes else None
    book = AccessBook(all_roles(topology.roles))
    known = Authentication(bootstrap, book, wall_ms)
    return Access(known, Tickets(vault), not settings.schemas_need_token, is_known)


def _streams(settings: Settings, topology: Topology, state: AppState, tickets: Tickets) -> Streams:
    async def query(look: Look, tenants: Tenants) -> Any:
        was_ready = state.ready()
        found = await asyncio.to_thread(state.database.read, look, tenants)
        if not (was_ready and state.ready()):  # rows may be missing of what was read
            raise not_ready()
        return found

    kept = kept_ms(live.TABLE, settings, topology)
    hub = Hub(state.notifier, SharedReads(query), state.read_barrier, topology.partitions)
    return Streams(hub, tickets, kept or 0)


async def _end_streams(app: web.Application) -> None:
    app[STREAMS].hub.close()


async def _state(
    settings: Settings,
    topology: Topology,
    vault: Vault,
    admissions: Admissions,
    failed: Failed,
    access: Access,
    ends: SessionEnds,
) -> AsyncIterator[AppState]:
    directory = settings.data_dir / "operator" / settings.instance
    database = Database(directory / "read_model.sqlite")
    notifier = RowNotifier(asyncio.get_running_loop())
    follower = Follower(settings, topology, database, notifier.announce, notifier.hurry)
    collector = ReadModelCollector(database, follower, topology.max_queued)
    producer = AwaitedProducer(settings, **{"message.timeout.ms": _ACKNOWLEDGED_WITHIN_MS})
    view = broker_view(settings, topology)
    collectors = (collector, view, KeyAgeCollector(database, lambda: follower.ready, vault))
    for each in collectors:
        REGISTRY.register(each)
    payloads = PayloadReader(settings, STAGE)
    reader = payload_thread(payloads, failed)
    follower.start()
    view.start()
    book = DataKeyring(vault)
    known = access.authentication
    fold = partial(_fold, (book.apply, known.book.apply, ends.apply))
    settings_of = TenantsFollower(settings, topology, STAGE, fold, _passed_over, failed)

    def ready() -> bool:  # `settings_of` checks the topics before it is ready
        return follower.ready and settings_of.ready

    closed = partial(_closed, database, ready)
    replays = carrier(settings, topology, closed, known.is_revoked, ready)
    reader.start()
    settings_of.start()
    replays.start()
    store = open_store(settings.artifacts) if settings.artifacts else None

    def heads(writer: str, partitions: Sequence[int]) -> Awaitable[dict[int, Head]]:
        return shared.heads(writer, partitions)

    def shows(head: Head) -> Awaitable[bool]:
        return shared.shows(head)

    own = FencedWrites(settings, f"{STAGE}-{settings.instance}")
    audited = AuditedWrites(settings.instance, own, heads, shows)
    shared = AppState(
        topology,
        vault,
        book,
        store,
        database,
        follower,
        notifier,
        producer,
        payloads,
        admissions(producer, vault, book, topology),
        ReadBarrier(settings, follower, notifier),
        FencedWrites(settings, SETTINGS_WRITER),
        audited,
        egress_policy(settings),
        settings.topic_prefix,
        Preview(settings, topology, closed),
        ready,
        known,
    )
    acts = bulk.carrier(
        settings, topology.partitions, producer, partial(deal, shared, known.withdrawn), ready
    )
    acts.start()
    tasks = [
        asyncio.create_task(keep_tokens(shared, known)),
        asyncio.create_task(require_administrator(known, ready, failed)),
    ]
    if store:
        tasks.append(asyncio.create_task(sweep_for_ever(shared, store)))
    yield shared
    for task in tasks:
        task.cancel()
    with suppress(KafkaUnavailable):
        await write_uses(shared, known)
    await audited.close()
    await asyncio.gather(asyncio.to_thread(acts.stop), asyncio.to_thread(replays.stop))
    reader.stopping.set()
    await asyncio.to_thread(settings_of.stop)
    await asyncio.to_thread(follower.stop)
    await asyncio.to_thread(view.stop)
    for each in collectors:
        REGISTRY.unregister(each)
    await producer.close()
    database.close()


def _fold(folds: Sequence[Fold], key: bytes | None, value: bytes | None) -> None:
    """Have each of those that follow `tenants` take a record, also if one of them cannot."""
    with ExitStack() as each:
        for fold in folds:
            each.callback(fold, key, value)


async def _serve(settings: Settings, topology: Topology, admissions: Admissions) -> None:
    end = ProcessEnd()
    app = build(settings, topology, admissions, end.failed)
    host, times = settings.host, {"keepalive_timeout": _KEEP_ALIVE_SECONDS, "shutdown_timeout": 5}
    tls = served_tls(settings.tls_cert, settings.tls_key, "TIDEGATE_TLS", "operator_server")
    async with tls as context, served(app, host, settings.port, context, **times) as port:
        log.info("operator listens", host=host, port=port, tls=context is not None)
        await end.wait()
    log.info("operator ended")


def _closed(database: Database, ready: Callable[[], bool], tenant_id: str) -> Reason | None:
    """Return why a tenant gets no jobs from a replay of events.

    Raises:
        KafkaUnavailable: what was read may be of a read model that is rebuilt now.
    """
    try:
        erasure = database.read(lambda db: tenants.erasure(db, tenant_id))
        record = database.read(lambda db: tenants.tenant(db, tenant_id))
    finally:
        database.release()  # the thread of a replay ends with it
    if not ready():
        raise KafkaUnavailable("the operator has not read its topics to their end")
    if erasure:
        return "tenant_erased"
    return "tenant_disabled" if record is not None and record.disabled else None


def _passed_over(message: Message, error: PoisonRecord) -> None:
    """Skip an unusable record of `tenants`: every ingress makes a dead letter of it."""

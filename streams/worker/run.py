"""`tidegate worker`: one worker process on Kafka, with a worker for each of its pools."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import structlog
import uvloop

from streams.artifacts.store import ArtifactStore, open_store
from streams.errors import ConfigError
from streams.kafka.clients import wait_for_broker
from streams.process.daemon_thread import in_daemon_thread
from streams.process.shutdown import end_within
from streams.redaction.redaction import Redaction
from streams.settings import Settings
from streams.telemetry import redact_logs, serve_probes
from streams.tenants.follower import TenantsFollower, log_unusable
from streams.topology.model import Topology
from streams.vault.key_encryption import Vault, open_vault, read_cluster_keys
from streams.vault.keyring import DataKeyring
from streams.worker.app import App
from streams.worker.credentials.credentials import Sources
from streams.worker.credentials.shipped import check_providers, shipped
from streams.worker.handler.watchdog import EXIT_CODE
from streams.worker.pools import DEFAULT, places
from streams.worker.transport.kafka import KafkaTransport
from streams.worker.worker import Worker, WorkerSpec
from streams.worker.workers import Workers

log = structlog.get_logger(__name__)

_END_SECONDS = 5.0
"""How long a worker that has ended may still be a process."""


def run(
    app: App,
    settings: Settings,
    topology: Topology,
    *,
    pools: Mapping[str, int | None] = MappingProxyType({DEFAULT: None}),
) -> None:
    """Run jobs of some pools until SIGTERM or SIGINT, then drain for 20 seconds at most.

    `pools` has the slots of each (None: those of the settings).

    Raises:
        ConfigError: an unknown pool, a pool with fewer slots than a job takes, an app without
            jobs, a key file is missing, or a topic has other than its declared number of
            partitions, or no provider of a credential is there.
        Fenced: another process runs under the same instance name.
        StageFailed: its copy of `tenants` is no longer updated.
    """
    wanted = places(app, settings, topology, pools)
    if not app.jobs:
        raise ConfigError(f"app {app.name!r} declares no job: add a function under @app.job(...)")
    providers = {**shipped(settings), **app.providers}
    check_providers(topology.credentials.values(), providers, app.jobs)
    sources = Sources(topology.credentials.get, providers)
    store = open_store(settings.artifacts) if settings.artifacts else None
    vault = open_vault(settings)
    cluster_keys = read_cluster_keys(settings)
    loop = uvloop.new_event_loop()
    try:
        main = _serve(app, settings, topology, wanted, cluster_keys, vault, sources, store)
        run_to_its_end(loop, main)
    finally:
        # Not `asyncio.run`: it would wait for ever for a handler that ignores being cancelled.
        loop.close()
        # Threads that its handlers left hanging would be waited for just so.
        end_within(_END_SECONDS, EXIT_CODE)


def run_to_its_end(loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, None]) -> None:
    """Run the loop until `main` is done, whatever other tasks raise.

    A `SystemExit` in a task that a handler has started goes to its awaiter and also leaves the
    loop. Unlike one in the handler itself, it would end the worker and all its runs. So would a
    handler that stops the loop, which is told by a `RuntimeError`.
    """
    task = loop.create_task(main)
    while not task.done():
        try:
            loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt, RuntimeError) as error:
            if loop.is_closed():
                raise
            if not task.done():
                log.error("a handler would end the worker: it goes on", error=repr(error))
    task.result()


async def _serve(
    app: App,
    settings: Settings,
    topology: Topology,
    wanted: Sequence[WorkerSpec],
    cluster_keys: tuple[bytes, ...],
    vault: Vault,
    sources: Sources,
    store: ArtifactStore | None,
) -> None:
    book, rules = DataKeyring(vault), topology.redaction
    redaction = Redaction(rules.fields, rules.patterns, rules.presets)
    each = [
        Worker(
            app,
            KafkaTransport(settings, place, topology.topics[f"jobs.work.{place.pool}"].partitions),
            topology,
            place,
            cluster_key=cluster_keys[0],
            older_keys=cluster_keys[1:],
            book=book,
            redaction=redaction,
            sources=sources,
            store=store,
        )
        for place in wanted
    ]
    redact_logs(redaction)
    workers = Workers(each)
    follower = TenantsFollower(
        settings, topology, wanted[0].group, book.apply, log_unusable, workers.failed
    )
    port = serve_probes(settings, lambda: workers.unready is None, lambda: workers.unready)
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    types = sorted(app.jobs)
    for worker in each:
        log.info("worker starts", worker_id=worker.id, app=app.name, types=types, probe_port=port)
    if not await _broker_answers(settings, stop):
        return
    follower.start()
    try:
        await workers.serve(stop)
    finally:
        await in_daemon_thread(follower.stop)
    for worker in each:
        log.info("worker ended", worker_id=worker.id)


async def _broker_answers(settings: Settings, stop: asyncio.Event) -> bool:
    """Wait until a broker answers, or until `stop` is set; whether one answers."""
    stopped = asyncio.create_task(stop.wait())
    answered = asyncio.create_task(in_daemon_thread(partial(wait_for_broker, settings)))
    done, waiting = await asyncio.wait({stopped, answered}, return_when="FIRST_COMPLETED")
    for task in waiting:
        task.cancel()
    if answered in done:
        answered.result()
    return answered in done

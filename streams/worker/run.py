"""`tidegate worker`: one worker process, with a worker for each of its pools."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import structlog
import uvloop

from streams.access.link_token import read_link_token
from streams.artifacts.store import ArtifactStore, open_store
from streams.errors import ConfigError
from streams.process.garbage import collect_seldom
from streams.process.shutdown import end_within
from streams.redaction.redaction import Redaction
from streams.settings import Settings
from streams.telemetry import redact_logs, serve_probes
from streams.topology.model import Topology
from streams.worker.app import App
from streams.worker.credentials.credentials import Sources
from streams.worker.credentials.shipped import check_providers, shipped
from streams.worker.handler.watchdog import EXIT_CODE
from streams.worker.link.addresses import addresses
from streams.worker.link.dialer import Dialer
from streams.worker.pools import DEFAULT, places
from streams.worker.worker import Worker, WorkerSpec
from streams.worker.workers import Workers

log = structlog.get_logger(__name__)

_COLLECT_AFTER = 5_000
"""New objects after which Python looks for cyclic garbage: after 700, a quarter of the time went on
jobs with one effect. What a handler leaves behind must not grow much more than that."""
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
            jobs, no address or token of the link, or no provider of a credential is there.
        Fenced: another process runs under the same instance name.
    """
    wanted = places(app, settings, topology, pools)
    if not app.jobs:
        raise ConfigError(f"app {app.name!r} declares no job: add a function under @app.job(...)")
    providers = {**shipped(settings), **app.providers}
    check_providers(topology.credentials.values(), providers, app.jobs)
    sources = Sources(topology.credentials.get, providers)
    store = open_store(settings.artifacts) if settings.artifacts else None
    dialers = [(place, dialer_of(settings)) for place in wanted]
    loop = uvloop.new_event_loop()
    collect_seldom(_COLLECT_AFTER)
    try:
        main = _serve(app, settings, topology, dialers, sources, store)
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
    dialers: Sequence[tuple[WorkerSpec, Dialer]],
    sources: Sources,
    store: ArtifactStore | None,
) -> None:
    rules = topology.redaction
    redaction = Redaction(rules.fields, rules.patterns, rules.presets)
    each = [
        Worker(
            app,
            dialer,
            topology,
            place,
            redaction=redaction,
            sources=sources,
            store=store,
        )
        for place, dialer in dialers
    ]
    redact_logs(redaction)
    workers = Workers(each)
    port = serve_probes(settings, lambda: workers.unready is None, lambda: workers.unready)
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    types = sorted(app.jobs)
    for worker in each:
        who = worker.link.identity
        log.info("worker starts", worker=who.name, pool=who.pool, app=app.name, types=types)
    log.info("probes are answered", probe_port=port)
    await workers.serve(stop)
    log.info("worker ended", worker=settings.instance)


def dialer_of(settings: Settings) -> Dialer:
    """What connects one worker to the owners of partitions.

    Raises:
        ConfigError: their addresses, the token or the file of authorities cannot be used.
    """
    token = partial(read_link_token, settings)
    token()
    return Dialer(addresses(settings.link), token, settings.link_ca)

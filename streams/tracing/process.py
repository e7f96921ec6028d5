"""Starts and ends the recording of traces in a process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import structlog
from opentelemetry import trace

from streams.process.daemon_thread import DaemonThread
from streams.settings import Settings
from streams.tracing import spans
from streams.tracing.wanted import Wanted, wanted

log = structlog.get_logger(__name__)

_LAST_SECONDS = 2.0
"""How long the last spans may take to be exported when the process ends."""


@contextmanager
def recorded(stage: str, settings: Settings) -> Iterator[None]:
    """Record traces within the block, if the environment asks for it; its end waits 2 s at most.

    Raises:
        ConfigError: the environment asks for something that cannot be done.
    """
    found = wanted(os.environ)
    if found is None:
        yield
        return
    stop = _start(found, stage, settings.instance)
    try:
        yield
    finally:
        spans.record_with(None)
        ending = DaemonThread("last-spans", stop)
        ending.start()
        ending.stop(_LAST_SECONDS)


def _start(found: Wanted, stage: str, instance: str) -> Callable[[], None]:
    """Begin to record; returns what ends the export."""
    from streams.tracing import sdk

    provider = sdk.provider(found, _resource(stage, instance, os.environ))
    # An application's own spans belong to its runs.
    trace.set_tracer_provider(provider)
    spans.record_with(provider.get_tracer("tidegate", version("tidegate")))
    log.info("traces are recorded", protocol=found.protocol, sampler=found.sampler)
    return provider.shutdown


def _resource(stage: str, instance: str, environ: Mapping[str, Any]) -> dict[str, str]:
    """What describes this process; `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win."""
    told = environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    named = {part.partition("=")[0].strip() for part in told.split(",")}
    if environ.get("OTEL_SERVICE_NAME"):
        named.add("service.name")
    own = {
        "service.namespace": "tidegate",
        "service.name": f"tidegate-{stage}",
        "service.instance.id": f"{stage}-{instance}",
        "service.version": version("tidegate"),
    }
    return {name: value for name, value in own.items() if name not in named}

"""Logs of a bench, where the application did not configure structlog itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from structlog.dev import ConsoleRenderer, plain_traceback
from structlog.typing import EventDict

from streams.worker.handler.handler_error import ALL_FRAMES


@contextmanager
def plain_logs() -> Iterator[None]:
    """Print tracebacks plainly meanwhile; what the application configures, also later, stays.

    structlog's default renders the local variables of every frame, which may be secret and takes a
    tenth of a second for each error. It also prints debug lines: the one that repeats a handler's
    traceback with the worker's frames is left out. Only its renderer and its list of processors
    are changed: `structlog.configure` would hide from the application's own `configure_once` that
    nobody has configured structlog yet.
    """
    renderer = None if structlog.is_configured() else ConsoleRenderer.get_active()
    if renderer is None or renderer.exception_formatter is plain_traceback:
        yield
        return
    before, renderer.exception_formatter = renderer.exception_formatter, plain_traceback
    processors = structlog.get_config()["processors"]
    processors.insert(0, _without_all_frames)
    try:
        yield
    finally:
        renderer.exception_formatter = before
        processors.remove(_without_all_frames)


def _without_all_frames(_logger: object, _method: str, event: EventDict) -> EventDict:
    if event["event"] == ALL_FRAMES:
        raise structlog.DropEvent
    return event

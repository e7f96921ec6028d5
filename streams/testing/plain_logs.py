"""Tracebacks of a bench, where the application did not configure structlog itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from structlog.dev import ConsoleRenderer, plain_traceback


@contextmanager
def plain_logs() -> Iterator[None]:
    """Print tracebacks plainly meanwhile; what the application configures, also later, stays.

    structlog's default renders the local variables of every frame, which may be secret and takes a
    tenth of a second for each error. Only its renderer is changed: `structlog.configure` would
    hide from the application's own `configure_once` that nobody has configured structlog yet.
    """
    renderer = None if structlog.is_configured() else ConsoleRenderer.get_active()
    if renderer is None or renderer.exception_formatter is plain_traceback:
        yield
        return
    before, renderer.exception_formatter = renderer.exception_formatter, plain_traceback
    try:
        yield
    finally:
        renderer.exception_formatter = before

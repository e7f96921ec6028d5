"""Log lines of a bench: as the product's processes print them, where nobody configured others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def plain_logs() -> Iterator[None]:
    """Print tracebacks plainly meanwhile; a structlog that the application configured stays.

    Its own default renders the local variables of every frame, which may be secret and takes a
    tenth of a second for each error.
    """
    if structlog.is_configured():
        yield
        return
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.dev.ConsoleRenderer(colors=False),
        ]
    )
    try:
        yield
    finally:
        structlog.reset_defaults()

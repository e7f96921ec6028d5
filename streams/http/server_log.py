"""What a server of ours logs of its requests: its own faults, and nothing that a client sent.

A request that is no HTTP is answered with 400. aiohttp would log it, too, with a traceback and the
bytes at fault: the header of a token that ends in a control character, a URL with a ticket.
"""

from __future__ import annotations

import logging

from aiohttp.http_exceptions import HttpProcessingError


class _Ours(logging.Filter):
    """Leaves out what the client alone did wrong."""

    def filter(self, record: logging.LogRecord) -> bool:
        raised = record.exc_info[1] if record.exc_info else None
        return not isinstance(raised, HttpProcessingError)


SERVER_LOG = logging.getLogger(__name__)
"""The `logger` of each server."""
SERVER_LOG.addFilter(_Ours())

"""Credentials in files of the worker's host; the reference is an absolute path.

Kubernetes mounts secrets so, and the agents of several vaults write such files.
"""

from __future__ import annotations

from functools import partial

from streams.process.daemon_thread import in_daemon_thread
from streams.worker.credentials.local import local
from streams.worker.credentials.provider import Credential, Scope

_SECONDS = 10.0
"""A changed or removed file is noticed within it."""


class Files:
    """One file a credential; a final newline is no part of it."""

    async def get(self, reference: str, scope: Scope) -> Credential:
        """See `Provider.get`. A file may lie on a network's drive, which hangs."""
        return await in_daemon_thread(partial(local, f"file:{reference}", _SECONDS))

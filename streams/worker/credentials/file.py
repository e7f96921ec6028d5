"""Credentials in files of the worker's host; the reference is an absolute path.

Kubernetes mounts secrets so, and the agents of several vaults write such files.
"""

from __future__ import annotations

from streams.worker.credentials.local import local
from streams.worker.credentials.provider import Credential, Scope
from streams.worker.credentials.questions import Questions

_SECONDS = 10.0
"""A changed or removed file is noticed within it."""


class Files:
    """One file a credential; a final newline is no part of it."""

    def __init__(self) -> None:
        self._files = Questions(_read)

    async def get(self, reference: str, scope: Scope) -> Credential:
        """See `Provider.get`. A file may lie on a network's drive, which hangs."""
        return await self._files.ask(reference)


def _read(path: str) -> Credential:
    return local(f"file:{path}", _SECONDS)

"""Credentials in the environment of the worker's process; the reference is a variable's name."""

from __future__ import annotations

from streams.worker.credentials.local import local
from streams.worker.credentials.provider import Credential, Scope

_SECONDS = 60.0


class Environment:
    """A process's environment does not change, so a new value needs a new process."""

    async def get(self, reference: str, scope: Scope) -> Credential:
        """See `Provider.get`."""
        return local(f"env:{reference}", _SECONDS)

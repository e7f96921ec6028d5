"""Raw bodies: fetched by reference, opened for the tenant of the lease and no other."""

from __future__ import annotations

import asyncio

from streams.errors import PermanentError, VaultError
from streams.serde.records import Lease
from streams.vault import Vault, chunk_purpose
from streams.worker.transport import Transport


class Payloads:
    """Reads and opens sealed bodies."""

    def __init__(self, transport: Transport, vault: Vault) -> None:
        self._transport = transport
        self._vault = vault

    async def open(self, lease: Lease) -> bytes:
        """See `Context.payload`."""
        ref, event = lease.payload_ref, lease.event
        if ref is None or event is None:
            raise PermanentError(
                f"job {lease.job_id} has no payload: it was submitted directly, read ctx.input"
            )
        chunks = await asyncio.wrap_future(self._transport.fetch(ref))
        try:
            return b"".join(
                self._vault.open(lease.tenant_id, chunk_purpose(event.event_id, index), sealed)
                for index, sealed in enumerate(chunks)
            )
        except VaultError as error:
            raise PermanentError(str(error)) from error

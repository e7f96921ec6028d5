"""Fetches raw bodies by reference, and opens them only for the tenant of the lease."""

from __future__ import annotations

from streams.errors import PermanentError
from streams.serde.records import Lease
from streams.vault.keyring import DataKeyring
from streams.vault.opening import open_payload
from streams.worker.transport.contract import Transport


class Payloads:
    """Reads and opens sealed bodies."""

    def __init__(self, transport: Transport, book: DataKeyring) -> None:
        self._transport = transport
        self._book = book

    async def open(self, lease: Lease) -> bytes:
        """See `Context.payload`."""
        ref, event = lease.payload_ref, lease.event
        if ref is None or event is None:
            raise PermanentError(
                f"job {lease.job_id} has no payload: it was submitted directly, read ctx.input"
            )
        fetch = self._transport.fetch
        return await open_payload(self._book, fetch, lease.tenant_id, event.event_id, ref)

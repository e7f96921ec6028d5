"""Fetches raw bodies by reference, and opens them only for the tenant of the lease."""

from __future__ import annotations

import asyncio
from functools import partial

from streams.errors import Erased, PermanentError, TransientError, VaultError
from streams.process.daemon_thread import in_daemon_thread
from streams.serde.records import Lease
from streams.serde.sizes import CHUNK_BYTES
from streams.vault.data_key import DataKey
from streams.vault.keyring import DataKeyring
from streams.worker.transport.contract import Transport

KEY_SECONDS = 10.0
"""How long to wait for a key that is not known here yet."""


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
        try:
            key = await self._key(lease.tenant_id, ref.key_id)
            chunks = await asyncio.wrap_future(self._transport.fetch(ref))
            if ref.size <= CHUNK_BYTES:
                return key.open(event.event_id, chunks, ref.size)
            # Avoid the loop's own thread pool: threads of handlers may hang there.
            opened = partial(key.open, event.event_id, chunks, ref.size)
            return await in_daemon_thread(opened)
        except Erased as error:
            raise PermanentError(f"the payload is gone: {error}") from error
        except VaultError as error:
            raise PermanentError(str(error)) from error

    async def _key(self, tenant_id: str, key_id: str) -> DataKey:
        found = asyncio.wrap_future(self._book.find(tenant_id, key_id))
        try:
            async with asyncio.timeout(KEY_SECONDS):
                return await found
        except TimeoutError:
            raise TransientError(
                f"data key {key_id} of tenant {tenant_id} is not known here: see whether this "
                "process can read the tenants topic"
            ) from None

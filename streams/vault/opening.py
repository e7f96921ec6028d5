"""Opens a sealed body by its reference, for whoever may read it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from streams.errors import Erased, PermanentError, TransientError, VaultError
from streams.process.daemon_thread import in_daemon_thread
from streams.serde.records import PayloadRef
from streams.serde.sizes import CHUNK_BYTES
from streams.vault.data_key import DataKey
from streams.vault.keyring import DataKeyring

KEY_SECONDS = 10.0
"""How long to wait for a key that is not known here yet."""

Fetch = Callable[[PayloadRef], Future[list[bytes]]]
"""Reads the sealed chunks of a body."""


async def open_payload(
    keyring: DataKeyring, fetch: Fetch, tenant_id: str, event_id: str, ref: PayloadRef
) -> bytes:
    """The raw body of a tenant's event.

    Raises:
        PermanentError: the body is gone, damaged, or its tenant is erased.
        TransientError: its key or its chunks cannot be read now.
    """
    key = await find_key(keyring, tenant_id, ref.key_id)
    chunks = await asyncio.wrap_future(fetch(ref))
    try:
        if ref.size <= CHUNK_BYTES:
            return key.open(event_id, chunks, ref.size)
        # Avoid the loop's own thread pool: threads of handlers may hang there.
        return await in_daemon_thread(partial(key.open, event_id, chunks, ref.size))
    except VaultError as error:
        raise PermanentError(str(error)) from error


async def find_key(keyring: DataKeyring, tenant_id: str, key_id: str) -> DataKey:
    """The key under which a tenant's body is sealed.

    Raises:
        PermanentError: the tenant is erased.
        TransientError: the key is not known here within `KEY_SECONDS`.
    """
    found = keyring.find(tenant_id, key_id)
    try:
        if found.done():
            return found.result()
        async with asyncio.timeout(KEY_SECONDS):
            return await asyncio.wrap_future(found)
    except Erased as error:
        raise PermanentError(f"the payload is gone: {error}") from error
    except TimeoutError:
        raise TransientError(
            f"data key {key_id} of tenant {tenant_id} is not known here: see whether this "
            "process can read the tenants topic"
        ) from None

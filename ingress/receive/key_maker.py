"""Makes each tenant's data key of the current period, at the tenant's first event in it.

A body is sealed under a key only after the key's record is durable and this process has read it
back; `streams/vault/keyring.py` says why. If two processes make a key at once, both keys are valid.
"""

from __future__ import annotations

import asyncio

import structlog

from ingress.receive.sender import Sender
from streams.errors import Erased, KafkaUnavailable
from streams.serde.codec import TENANT
from streams.serde.ids import partition_for
from streams.serde.keys import tenant_key
from streams.vault.data_key import DataKey, new_key_record
from streams.vault.key_encryption import Vault
from streams.vault.keyring import DataKeyring

log = structlog.get_logger(__name__)

_TOPIC = "tenants"
_MADE_SECONDS = 10.0


class KeyMaker:
    """Belongs to one event loop; `book` follows `tenants`."""

    def __init__(self, sender: Sender, vault: Vault, book: DataKeyring, partitions: int) -> None:
        self._sender = sender
        self._vault = vault
        self._book = book
        self._partitions = partitions
        self._under_way: dict[str, asyncio.Task[DataKey]] = {}

    def current(self, tenant_id: str) -> DataKey | None:
        """The tenant's key of this period, if there is one."""
        return self._book.current(tenant_id)

    async def make(self, tenant_id: str) -> DataKey:
        """A new key; calls made while a key is being made get the same one.

        Raises:
            Erased: the tenant was erased, so it gets no key.
            KafkaUnavailable: its record was not acknowledged, or not read back in time.
        """
        task = self._under_way.get(tenant_id)
        if task is None:
            task = self._under_way[tenant_id] = asyncio.create_task(self._make(tenant_id))
            task.add_done_callback(lambda _: self._under_way.pop(tenant_id))
        try:
            # A caller that gives up at its deadline must not cancel the task for the others.
            return await asyncio.shield(task)
        finally:
            del task  # its exception refers to this frame: the cycle would keep the body alive

    async def _make(self, tenant_id: str) -> DataKey:
        # The key that wraps the data key may be on another host: do not block the event loop.
        record = await asyncio.to_thread(new_key_record, self._vault, tenant_id)
        address = tenant_key(tenant_id, "data_key", record.id)
        read_back = asyncio.wrap_future(self._book.find(tenant_id, record.id))
        try:
            async with asyncio.timeout(_MADE_SECONDS):
                await self._send(tenant_id, address, TENANT.encode(record))
                key = await read_back
        except TimeoutError:
            raise KafkaUnavailable(f"{_TOPIC}: a new data key was not read back") from None
        except Erased:
            await self._send(tenant_id, address, None)
            raise
        finally:
            read_back.cancel()
        log.info("data key made", tenant_id=tenant_id, key_id=key.key_id)
        return key

    async def _send(self, tenant_id: str, address: bytes, value: bytes | None) -> None:
        partition = partition_for(tenant_id, self._partitions)
        await self._sender.send(_TOPIC, address, value, partition=partition)

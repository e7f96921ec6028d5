"""Opens the sealed bodies of events for their attempts, each once for all endpoints that get it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from streams.kafka.payload_reader import PayloadReader
from streams.kafka.payload_thread import payload_thread
from streams.process.bounded_cache import BoundedCache
from streams.serde.records import PayloadRef
from streams.settings import Settings
from streams.vault.keyring import DataKeyring
from streams.vault.opening import find_key, open_payload

_MOST_BYTES = 64 * 1024 * 1024

Key = tuple[str, str]
"""Tenant and event."""


class KafkaBodies:
    """Reads `payloads`, and keeps the bodies that were used last.

    `failed` is called with the error that ended its thread. `open` belongs to one event loop.
    """

    def __init__(
        self, settings: Settings, keyring: DataKeyring, failed: Callable[[Exception], None]
    ) -> None:
        self._keyring = keyring
        self._reader = PayloadReader(settings, "delivery")
        self._thread = payload_thread(self._reader, failed)
        self._opened = BoundedCache[Key, bytes](_MOST_BYTES)
        self._opening: dict[Key, asyncio.Task[bytes]] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._thread.stop(5)

    async def open(self, tenant_id: str, event_id: str, ref: PayloadRef) -> bytes:
        """The raw body of an event; see `requests.Bodies`."""
        key = tenant_id, event_id
        if key in self._opened:
            await find_key(self._keyring, tenant_id, ref.key_id)  # the tenant may be erased by now
        if (body := self._opened.get(key)) is not None:
            return body
        if key not in self._opening:
            task = asyncio.create_task(self._open(key, ref))
            self._opening[key] = task
            task.add_done_callback(partial(self._done, key))
        # A cancelled attempt must not cancel the reading for the others.
        return await asyncio.shield(self._opening[key])

    async def _open(self, key: Key, ref: PayloadRef) -> bytes:
        return await open_payload(self._keyring, self._reader.fetch, *key, ref)

    def _done(self, key: Key, task: asyncio.Task[bytes]) -> None:
        del self._opening[key]
        if task.cancelled() or task.exception() is not None:
            return
        body = task.result()
        self._opened.put(key, body, len(body) + sum(map(len, key)))

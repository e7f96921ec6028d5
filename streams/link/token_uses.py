"""Notes when the tokens of workers were used last, once a minute at most, as operators do.

A connection uses its token for as long as it is open. All owners follow `tenants`, so what one of
them has noted the others do not note again. Nothing depends on it but what people are shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from streams.access.token_records import PARTITION, use_record
from streams.errors import TidegateError
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key

log = structlog.get_logger(__name__)

EVERY_SECONDS = 60.0

Unwritten = Callable[[int], Mapping[str, int]]
"""The uses (ms) by token that are newer by so many milliseconds than what is noted of them."""


class Producer(Protocol):
    """Writes records to topics by their logical names, as `AwaitedProducer` does."""

    async def send(
        self, topic: str, key: bytes | None, value: bytes | None, *, partition: int
    ) -> int:
        """Return once every in-sync replica has the record."""


async def keep_uses(unwritten: Unwritten, producer: Producer) -> None:
    """Note uses once a minute, until this task is cancelled."""
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        await write_uses(unwritten, producer, round(EVERY_SECONDS * 1000))


async def write_uses(unwritten: Unwritten, producer: Producer, since_ms: int) -> None:
    """Note the uses that are newer by `since_ms` than what is noted of them, or log why not."""
    try:
        for token_id, at in unwritten(since_ms).items():
            record = use_record(token_id, at)
            key = tenant_key(record.tenant_id, record.kind, record.id)
            await producer.send("tenants", key, TENANT.encode(record), partition=PARTITION)
    except TidegateError as error:
        log.warning("the last uses of tokens are noted later", error=str(error))

"""The interface through which an ingress writes its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Sender(Protocol):
    """`streams.kafka.clients.AwaitedProducer`, or its twin in memory."""

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> int:
        """The record's offset, once all in-sync replicas have it; may raise `KafkaUnavailable`."""

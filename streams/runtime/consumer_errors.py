"""The errors that a stage's consumer gives in place of records."""

from __future__ import annotations

import math
import time

import structlog
from confluent_kafka import KafkaError, Message

from streams.errors import Fenced
from streams.kafka.failures import Outage, Verdict, classify_read, damage

log = structlog.get_logger(__name__)

_TELL_SECONDS = 60.0
"""How often an error that stays is logged."""


class ConsumerErrors:
    """Holds errors until the loop reads on; one that stays is logged once a minute."""

    def __init__(self, outage: Outage) -> None:
        self._outage = outage
        self._held: list[Message] = []
        self._told: dict[object, float] = {}  # when an error of a partition was last logged

    def add(self, message: Message) -> None:
        self._held.append(message)

    def clear(self) -> None:
        self._held.clear()

    def tell(self) -> None:
        """Log those that are held.

        Raises:
            Fenced: another process joined as this instance.
        """
        held, self._held = self._held, []
        for message in held:
            self._tell(message)

    def _tell(self, message: Message) -> None:
        error = message.error()
        if error is None:
            return
        if classify_read(error) is Verdict.FENCED:
            raise Fenced(f"another process joined as this instance: {error.str()}")
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._outage.failed(error.str())
            return
        cause, now = (error.code(), message.topic(), message.partition()), time.monotonic()
        if now - self._told.get(cause, -math.inf) >= _TELL_SECONDS:
            self._told[cause] = now
            log.warning(
                "consumer error",
                error=str(damage(message) or error.str()),
                topic=message.topic(),
                partition=message.partition(),
                offset=message.offset(),
            )

"""Logs why a reader gets nothing: no broker answers, or a partition gives errors alone."""

from __future__ import annotations

from typing import Literal

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException

from streams.kafka.failures import Outage
from streams.kafka.first_contact import note_reason
from streams.process.boot_clock import boot_seconds

log = structlog.get_logger(__name__)

_ANSWER_SECONDS = 0.5
_RECENT_SECONDS = 60.0
"""The client tries each broker again within 10 s, and then tells its reason again."""

Wanted = Literal["records", "end"]
"""The kind of answer that a partition is asked for."""


class Silence:
    """Logs each cause once for as long as it lasts. One thread uses it, after a broker answered.

    The client itself repeats all of this, for ever and without a log line.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._told: set[tuple[Wanted, int, int | None]] = set()
        self._reasons: list[KafkaError] = []
        self._reason_at = float("-inf")
        self._outage = Outage()
        self._outage.answered()

    def heard(self, error: KafkaError) -> None:
        """Note an error of the client as a whole: librdkafka's `error_cb`, called while polling."""
        now = boot_seconds()
        if now - self._reason_at > _RECENT_SECONDS:
            self._reasons.clear()
        note_reason(self._reasons, error)
        if any(reason is error for reason in self._reasons):
            self._reason_at = now
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._outage.failed(next(iter(self._reasons), error).str())

    def ask(self, consumer: Consumer) -> None:
        """During an outage, ask whether it is over.

        Records prove nothing, because the client may have fetched them before, and after an outage
        a topic without new records gives none.
        """
        if self._outage.over:
            return
        try:
            consumer.list_topics(self._topic, _ANSWER_SECONDS)
        except KafkaException:
            return
        self._reasons.clear()
        self._outage.answered()

    def tell(self, wanted: Wanted, error: KafkaError, partition: int | None) -> None:
        """Log a partition's error, unless it was logged since the last good answer."""
        cause = (wanted, error.code(), partition)
        if cause not in self._told:
            self._told.add(cause)
            log.warning(
                "kafka does not give events: trying on",
                topic=self._topic,
                partition=partition,
                error=error.str(),
            )

    def given(self, wanted: Wanted, partition: int) -> None:
        """Note that a partition has given what is wanted: a later error is a new one."""
        if self._told:
            self._told = {
                cause
                for cause in self._told
                if cause[0] != wanted or cause[2] not in (partition, None)
            }

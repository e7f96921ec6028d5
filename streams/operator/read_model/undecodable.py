"""Sends records that the read model cannot decode to the dead letters, and skips them."""

from __future__ import annotations

import structlog
from confluent_kafka import KafkaError, Message, Producer

from streams import dead_letter
from streams.errors import KafkaUnavailable, PoisonRecord
from streams.kafka.clients import producer_config
from streams.operator import STAGE
from streams.process.wall_clock import wall_ms
from streams.runtime.processor import Record
from streams.settings import Settings

log = structlog.get_logger(__name__)

_FLUSH_SECONDS = 10


class Undecodable:
    """Writes dead letters of kind `record`; only the follower's thread uses it.

    A read model that is rebuilt writes the same letters again, under the same ids, so the list
    still has each once.
    """

    def __init__(self, settings: Settings) -> None:
        self._producer = Producer(producer_config(settings))
        self._topic = settings.topic_prefix + dead_letter.TOPIC
        self._failures: list[KafkaError] = []

    def put(self, record: Record, error: PoisonRecord) -> None:
        """Queue the record's dead letter, on the record's own partition."""
        letter = dead_letter.of_record(
            STAGE, *record, reason=error.reason, detail=error.detail, at=wall_ms()
        )
        log.warning("record goes to the dead letters", id=letter.id, reason=str(error))
        key, value = dead_letter.encoded(letter)
        self._producer.produce(
            self._topic, value, key, record.partition, on_delivery=self._delivered
        )

    def flush(self) -> None:
        """Return when every queued dead letter is acknowledged.

        Raises:
            KafkaUnavailable: one is not; do not store the offsets of the records.
        """
        left = self._producer.flush(_FLUSH_SECONDS)
        failures, self._failures = self._failures, []
        if left or failures:
            raise KafkaUnavailable(f"{self._topic}: {failures[0] if failures else 'no answer'}")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error)

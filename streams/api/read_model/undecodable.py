"""Sends records that the read model cannot decode to the dead letters, and skips them."""

from __future__ import annotations

from functools import partial

import structlog
from confluent_kafka import KafkaError, Message, Producer

from streams import dead_letter
from streams.api import STAGE
from streams.errors import KafkaUnavailable, PoisonRecord, RecordTooLarge
from streams.kafka.clients import producer_config
from streams.kafka.failures import not_sent
from streams.process.wall_clock import wall_ms
from streams.runtime.processor import Record
from streams.serde.records import DeadLetter
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
        self._refused: list[DeadLetter] = []
        self._failures: list[KafkaUnavailable] = []

    def put(self, record: Record, error: PoisonRecord) -> None:
        """Queue the record's dead letter, on the record's own partition."""
        letter = dead_letter.of_record(
            STAGE, *record, reason=error.reason, detail=error.detail, at=wall_ms()
        )
        log.warning("record goes to the dead letters", id=letter.id, reason=str(error))
        self._send(letter)

    def flush(self) -> None:
        """Return when every queued dead letter is acknowledged.

        A letter that the broker refuses for its size is sent alone, then without its record. If it
        is refused even then, it is given up, and the log says so: the read model goes on.

        Raises:
            KafkaUnavailable: one is not; do not store the offsets of the records.
        """
        for letter in self._flushed():
            self._write_alone(letter)

    def _write_alone(self, letter: DeadLetter) -> None:
        for each in (letter, dead_letter.shortened(letter)):
            self._send(each)
            if not self._flushed():
                return
        log.error(
            "the broker refuses a dead letter for its size: mend the topic dlq, as `tidegate "
            "topology plan` says; a rebuilt read model makes the letter again",
            id=letter.id,
        )

    def _send(self, letter: DeadLetter) -> None:
        key, value = dead_letter.encoded(letter)
        told = partial(self._delivered, letter)
        self._producer.produce(self._topic, value, key, letter.partition or 0, on_delivery=told)

    def _flushed(self) -> list[DeadLetter]:
        """Wait for what was sent; return the letters that are too large."""
        left = self._producer.flush(_FLUSH_SECONDS)
        failures, self._failures = self._failures, []
        refused, self._refused = self._refused, []
        if left or failures:
            raise failures[0] if failures else KafkaUnavailable(f"{self._topic}: no answer")
        return refused

    def _delivered(self, letter: DeadLetter, error: KafkaError | None, _: Message) -> None:
        if error is None:
            return
        failure = not_sent(self._topic, error)
        if isinstance(failure, RecordTooLarge):
            self._refused.append(letter)
        else:
            self._failures.append(failure)

"""Sends the records of one replay, and waits until the broker has them."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streams.errors import KafkaUnavailable
from streams.event_replay.replay import TOPIC
from streams.kafka.clients import producer_config
from streams.kafka.failures import not_sent
from streams.settings import Settings

_ACKNOWLEDGED_WITHIN_SECONDS = 15


class Sink:
    """A producer for one thread, made for the first record; replace it after a failure.

    `broker_ms` is the time at which a broker took the newest record of `replays`, in milliseconds,
    0 before the first.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._producer: Producer | None = None
        self._failed: list[tuple[str, KafkaError]] = []
        self.broker_ms = 0

    def send(self, topic: str, key: bytes, value: bytes, partition: int) -> None:
        """Hand over a record; `flush` tells whether it arrived.

        Raises:
            KafkaUnavailable: too many records wait, or the broker does not know the topic.
        """
        if self._producer is None:
            timeout = {"message.timeout.ms": _ACKNOWLEDGED_WITHIN_SECONDS * 1_000}
            self._producer = Producer(producer_config(self._settings, **timeout))
        name, told = self._settings.topic_prefix + topic, self._delivered
        try:
            self._producer.produce(name, value, key, partition, on_delivery=told)
        except BufferError as error:
            raise KafkaUnavailable(f"{topic}: {error}") from error
        except KafkaException as error:
            raise not_sent(topic, error.args[0]) from error

    def flush(self) -> None:
        """Return once every record is durable.

        Raises:
            KafkaUnavailable: one is not; each of them may be written nevertheless.
        """
        left = self._producer.flush(_ACKNOWLEDGED_WITHIN_SECONDS + 1) if self._producer else 0
        if self._failed:
            raise not_sent(*self._failed[0])
        if left:
            raise KafkaUnavailable(f"{left} records were not acknowledged in time")

    def rest(self) -> None:
        """Let the producer go until the next record."""
        self._producer = None

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        topic = (message.topic() or "").removeprefix(self._settings.topic_prefix)
        if error is not None:
            self._failed.append((topic, error))
        elif topic == TOPIC:
            self.broker_ms = message.timestamp()[1]

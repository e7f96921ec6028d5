"""Sends the carrier's records, and waits until the broker has them."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streams.errors import KafkaUnavailable
from streams.event_replay.known import TOPIC
from streams.kafka.clients import producer_config
from streams.kafka.failures import not_sent
from streams.settings import Settings

_ACKNOWLEDGED_WITHIN_SECONDS = 15


class Sink:
    """A producer for one thread. After a failure it begins anew with another producer.

    `broker_ms` is the time at which a broker took the newest record of `replays`, in milliseconds,
    0 before the first.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._producer: Producer | None = None
        self.broker_ms = 0
        self._failed: list[tuple[str, KafkaError]] = []

    def send(self, topic: str, key: bytes, value: bytes, partition: int) -> None:
        """Hand over a record; `flush` tells whether it arrived.

        Raises:
            KafkaUnavailable: too many records wait, or the broker does not know the topic.
        """
        try:
            self._open().produce(
                self._settings.topic_prefix + topic,
                value,
                key,
                partition,
                on_delivery=self._delivered,
            )
        except BufferError as error:
            raise KafkaUnavailable(f"{topic}: {error}") from error
        except KafkaException as error:
            self._producer = None
            raise not_sent(topic, error.args[0]) from error

    def flush(self) -> None:
        """Return once every record since the last flush is durable.

        Raises:
            KafkaUnavailable: one is not; each of them may be written nevertheless.
        """
        if self._producer is None:
            return
        left = self._producer.flush(_ACKNOWLEDGED_WITHIN_SECONDS + 1)
        failed, self._failed = self._failed, []
        if failed or left:
            self._producer = None
        if failed:
            raise not_sent(*failed[0])
        if left:
            raise KafkaUnavailable(f"{left} records were not acknowledged in time")

    def _open(self) -> Producer:
        if self._producer is None:
            timeout = {"message.timeout.ms": _ACKNOWLEDGED_WITHIN_SECONDS * 1_000}
            self._producer = Producer(producer_config(self._settings, **timeout))
        return self._producer

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        topic = (message.topic() or "").removeprefix(self._settings.topic_prefix)
        if error is not None:
            self._failed.append((topic, error))
        elif topic == TOPIC:
            self.broker_ms = message.timestamp()[1]

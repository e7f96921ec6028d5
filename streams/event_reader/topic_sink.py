"""Where a reader's effects go if they are records of other topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from streams.errors import ConfigError
from streams.event_reader.handling import Handle, Part, handled
from streams.event_reader.sinks import Moved

_TIMEOUT_SECONDS, _ROOM_SECONDS = 30.0, 0.1
_TRANSACTION_SECONDS = 10.0
_LOOKS, _BETWEEN_LOOKS_SECONDS = 3, 0.5
"""As long as a session: the heir of a killed process waits for the end of its transaction."""

Send = Callable[..., None]


class KafkaSink:
    """Other topics of the same Kafka; `handle` gets an event and `send(topic, value, key=None)`.

    The offsets are those of the consumer group. Readers of these topics must read committed records
    alone. Source: KIP-447.
    """

    def __init__(self, transactional_id: str) -> None:
        self._transactional_id = transactional_id
        self._producer: Producer
        self._known: set[str] = set()

    def open(self, reader: str, topic: str, client: Mapping[str, Any]) -> None:
        self._topic, self._client = topic, client
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._producer = Producer(
            {
                **self._client,
                "transactional.id": self._transactional_id,
                "acks": "all",
                "transaction.timeout.ms": round(_TRANSACTION_SECONDS * 1_000),
            }
        )
        self._producer.init_transactions(_TIMEOUT_SECONDS)
        self._aborted = False

    def stored(self, consumer: Consumer, partitions: Sequence[int]) -> dict[int, int | None]:
        places = [TopicPartition(self._topic, number) for number in partitions]
        found = consumer.committed(places, _TIMEOUT_SECONDS)
        for place in found:
            if place.error is not None:  # no offset then means that it is not known
                raise KafkaException(place.error)
        return {p.partition: None if p.offset < 0 else p.offset for p in found}

    def write(self, consumer: Consumer, part: Part, handle: Handle) -> int:
        if self._aborted:  # this producer could lose a record: see `KafkaTransactions._abort`
            self._begin_anew()
        began = time.monotonic()
        self._producer.begin_transaction()
        try:
            after = handled(part, handle, self._send)
            place = TopicPartition(self._topic, part.partition, after)
            self._producer.send_offsets_to_transaction(
                [place], consumer.consumer_group_metadata(), _TIMEOUT_SECONDS
            )
            self._producer.commit_transaction(_TIMEOUT_SECONDS)
        except BaseException as error:
            self._aborted = True
            with suppress(KafkaException):
                self._producer.abort_transaction(_TIMEOUT_SECONDS)
            if isinstance(error, KafkaException) and error.args[0].code() in _NOT_OURS:
                raise Moved from None
            if (lasted := time.monotonic() - began) > _TRANSACTION_SECONDS:
                error.add_note(
                    f"the transaction was open for {lasted:.0f} s, and Kafka ends one after "
                    f"{_TRANSACTION_SECONDS:.0f} s: the handler must need less for an event"
                )
            raise
        return after

    def close(self) -> None:
        """Nothing: an open transaction was aborted."""

    def _send(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        if topic not in self._known:
            self._require(topic)
        while True:
            try:
                self._producer.produce(topic, value, key)
                break
            except BufferError:  # the client's queue is full until the broker has taken some
                self._producer.poll(_ROOM_SECONDS)
        self._producer.poll(0)

    def _require(self, topic: str) -> None:
        """Check that there is a topic; a broker may make it because it is asked for.

        librdkafka would hold a record of an unknown topic until the transaction's time is over.
        """
        for _ in range(_LOOKS):
            error = self._producer.list_topics(topic, _TIMEOUT_SECONDS).topics[topic].error
            if error is None or error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                self._known.add(topic)
                return
            time.sleep(_BETWEEN_LOOKS_SECONDS)
        raise ConfigError(f"there is no topic {topic!r}: make it, then start the reader again")


_NOT_OURS = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
    }
)
"""Codes that say that the group has given the partition to somebody else."""

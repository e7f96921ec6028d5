"""Reads `events` on from some offsets, as committed, for as long as somebody wants more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, Message, TopicPartition

from streams.errors import KafkaUnavailable, PoisonRecord
from streams.event_reader.scan import Found, found_in
from streams.event_reader.selection import Selection
from streams.event_reader.span import EVENTS
from streams.kafka.clients import UNHURRIED, closing_watched, consumer_config
from streams.kafka.failures import DENIED, GONE, UNREADABLE, damage
from streams.settings import Settings

_BATCH, _WAIT_SECONDS = 500, 0.2


def follow(settings: Settings, offsets: Mapping[int, int], selection: Selection) -> Iterator[Found]:
    """Yield selected events as they come; records that cannot be read are left out.

    It waits for brokers that are away.

    Raises:
        KafkaUnavailable: the topic must not be read, or is not there; what comes next was purged or
            is damaged.
    """
    name = settings.topic_prefix + EVENTS
    own = {"auto.offset.reset": "error", **UNHURRIED}
    config = consumer_config(settings, "events-reader", **own)
    with closing_watched(Consumer(config)) as consumer:
        consumer.assign([TopicPartition(name, number, at) for number, at in offsets.items()])
        while True:
            for message in consumer.consume(_BATCH, _WAIT_SECONDS):
                if message.error() is not None:
                    _refuse(name, message)
                    continue
                try:
                    found = found_in(message)
                except PoisonRecord:
                    continue
                if selection.has(found.event, found.at):
                    yield found


def _refuse(name: str, message: Message) -> None:
    """Raise an error that does not pass by itself."""
    error, damaged = message.error(), damage(message)
    if damaged is not None:
        raise damaged
    if error is not None and error.code() in GONE:
        raise KafkaUnavailable(
            f"{name}, partition {message.partition()}: the next events were purged, or the topic "
            "was made again: type the command again"
        )
    if error is not None and error.code() in UNREADABLE | DENIED:
        raise KafkaUnavailable(f"{name}: {error.str()}")

"""Reads `events` on from some offsets, as committed, for as long as somebody wants more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing

from confluent_kafka import Consumer, TopicPartition

from streams.errors import KafkaUnavailable, PoisonRecord
from streams.event_reader.scan import Found, found_in
from streams.event_reader.selection import Selection
from streams.event_reader.span import EVENTS
from streams.kafka.clients import consumer_config
from streams.kafka.failures import DENIED, UNREADABLE
from streams.settings import Settings

_BATCH, _WAIT_SECONDS = 500, 0.2


def follow(settings: Settings, offsets: Mapping[int, int], selection: Selection) -> Iterator[Found]:
    """Yield selected events as they come; records that cannot be read are left out.

    It waits for brokers that are away.

    Raises:
        KafkaUnavailable: the topic must not be read, or is not there.
    """
    name = settings.topic_prefix + EVENTS
    with closing(Consumer(consumer_config(settings, "events-reader"))) as consumer:
        consumer.assign([TopicPartition(name, number, at) for number, at in offsets.items()])
        while True:
            for message in consumer.consume(_BATCH, _WAIT_SECONDS):
                error = message.error()
                if error is not None:
                    if error.code() in UNREADABLE | DENIED:
                        raise KafkaUnavailable(f"{name}: {error.str()}")
                    continue
                try:
                    found = found_in(message)
                except PoisonRecord:
                    continue
                if selection.has(found.event, found.at):
                    yield found

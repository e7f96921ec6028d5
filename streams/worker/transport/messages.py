"""Kafka's messages as the records that the worker's inbox takes."""

from __future__ import annotations

from confluent_kafka import Message

from streams.worker.transport.contract import Incoming


def incoming(message: Message, topic: str) -> Incoming:
    """Convert a message of a logical topic."""
    key, value = message.key(), message.value()
    return Incoming(
        topic,
        message.partition() or 0,
        message.offset() or 0,
        key.encode() if isinstance(key, str) else key,
        value.encode() if isinstance(value, str) else value,
    )

"""Kafka's messages and errors as the worker wants them."""

from __future__ import annotations

from confluent_kafka import KafkaError, Message

from streams.worker.transport.contract import Incoming


def incoming(message: Message, topic: str) -> Incoming:
    """A message of a logical topic."""
    key, value = message.key(), message.value()
    return Incoming(
        topic,
        message.partition() or 0,
        message.offset() or 0,
        key.encode() if isinstance(key, str) else key,
        value.encode() if isinstance(value, str) else value,
    )


def is_fatal(error: KafkaError) -> bool:
    """Whether the client that has this error can do nothing more (librdkafka, INTRODUCTION)."""
    return error.fatal() or error.code() in (KafkaError._FATAL, KafkaError._FENCED)

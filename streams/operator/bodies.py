"""Fetches and opens one raw body for an operator's call: rare, so each time with a new reader."""

from __future__ import annotations

import asyncio
import time

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from streams.errors import KafkaUnavailable, VaultError
from streams.kafka import consumer_config
from streams.operator.kafka_clients import CLIENT
from streams.operator.refusal import Refusal
from streams.serde.records import PayloadRef
from streams.settings import Settings
from streams.vault import Vault, chunk_purpose

_TOPIC = "payloads"
_FETCH_SECONDS = 10.0
_GONE = {KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET}


class Bodies:
    """Reads `payloads`; alike for every request."""

    def __init__(self, settings: Settings, vault: Vault) -> None:
        self._settings = settings
        self._vault = vault

    async def open(self, tenant_id: str, event_id: str, ref: PayloadRef) -> bytes:
        """The plain body.

        Raises:
            Refusal: 410, it is past its retention, or cannot be opened any more.
            KafkaUnavailable: no broker gave it in time.
        """
        chunks = await asyncio.to_thread(self._fetch, ref)
        try:
            return b"".join(
                self._vault.open(tenant_id, chunk_purpose(event_id, index), sealed)
                for index, sealed in enumerate(chunks)
            )
        except VaultError as error:
            raise _gone(str(error)) from error

    def _fetch(self, ref: PayloadRef) -> list[bytes]:
        # A group's name is demanded; with partitions assigned by hand there is no group.
        config = {**CLIENT, "auto.offset.reset": "error", "fetch.message.max.bytes": 1024 * 1024}
        consumer = Consumer(consumer_config(self._settings, "operator-bodies", **config))
        try:
            topic, until = self._settings.topic_prefix + _TOPIC, time.monotonic() + _FETCH_SECONDS
            return [
                _chunk(consumer, TopicPartition(topic, ref.partition, offset), until)
                for offset in ref.offsets
            ]
        finally:
            consumer.close()


def _chunk(consumer: Consumer, place: TopicPartition, until: float) -> bytes:
    consumer.assign([place])
    while (left := until - time.monotonic()) > 0:
        message = consumer.poll(min(left, 0.5))
        if message is None or (_has_failed(message) and not _is_gone(message)):
            continue
        value = message.value()
        if _is_gone(message) or message.offset() != place.offset or not isinstance(value, bytes):
            raise _gone(f"{_TOPIC}:{place.partition}:{place.offset} is past its retention")
        return value
    raise KafkaUnavailable(f"{_TOPIC}:{place.partition}:{place.offset} was not read in time")


def _has_failed(message: Message) -> bool:
    return message.error() is not None


def _is_gone(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() in _GONE


def _gone(detail: str) -> Refusal:
    return Refusal(410, "body-gone", f"the raw body cannot be had any more: {detail}")

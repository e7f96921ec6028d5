"""Starts and ends of partitions, as the broker has them now.

They are read under READ_UNCOMMITTED unless asked otherwise: a read_committed watermark is the last
stable offset, which hides what an open transaction has already written.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from streams.settings import Settings

Place = tuple[str, int]
"""Logical topic and partition."""


def offsets_admin(settings: Settings) -> AdminClient:
    """An admin client that finds new leaders within a second.

    librdkafka answers offset requests from cached leaders and does not ask again when they are gone
    (`No leaders found`, `FENCED_LEADER_EPOCH`). Only a refresh helps, which by default comes after
    5 minutes.
    """
    return AdminClient(settings.client(**{"topic.metadata.refresh.interval.ms": 1_000}))


def request_offsets(
    admin: AdminClient,
    prefix: str,
    places: Iterable[Place],
    spec: OffsetSpec,
    timeout: float,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[Place, Future[Any]]:
    """Ask for an offset of each place, without waiting; read the answers with `offset_in`."""
    asked = {TopicPartition(prefix + topic, partition): spec for topic, partition in places}
    if not asked:
        return {}
    futures = admin.list_offsets(asked, isolation_level=isolation, request_timeout=timeout)
    return {(tp.topic.removeprefix(prefix), tp.partition): f for tp, f in futures.items()}


def offset_in(answer: Future[Any]) -> int:
    """The offset, after waiting for it if necessary.

    Raises:
        KafkaException: not answered. While a broker goes away, librdkafka answers with success and
            an offset of -1001; using that as an end would skip everything.
    """
    offset = int(answer.result().offset)
    if offset < 0:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "no offset in the answer"))
    return offset


def earliest() -> OffsetSpec:
    """The first offset that still exists."""
    spec: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    return spec


def latest() -> OffsetSpec:
    """The offset after the last record or marker."""
    spec: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    return spec

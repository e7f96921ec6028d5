"""Starts and ends of partitions, as the broker has them now.

They are read under READ_UNCOMMITTED unless asked otherwise: a read_committed watermark is the last
stable offset, which hides what an open transaction has already written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    OFFSET_END,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from streams.kafka.failures import Outage

Place = tuple[str, int]
"""Logical topic and partition."""


_PATIENCE_SECONDS = 5.0


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


def read_offsets(
    admin: AdminClient, prefix: str, places: Iterable[Place], spec: OffsetSpec, timeout: float
) -> dict[Place, int]:
    """The offset of each place, after waiting for the answers.

    Raises:
        KafkaException: see `offset_in`.
    """
    answers = request_offsets(admin, prefix, places, spec, timeout)
    return {place: offset_in(answer) for place, answer in answers.items()}


def read_since(
    admin: AdminClient, prefix: str, ends: Mapping[Place, int], milliseconds: int, timeout: float
) -> dict[Place, int]:
    """The offset of the first record of each place from a time on; the given end if none is there.

    Raises:
        KafkaException: see `offset_in`.
    """
    answers = request_offsets(admin, prefix, ends, since(milliseconds), timeout)
    return {place: offset_since(answer, ends[place]) for place, answer in answers.items()}


def offset_since(answer: Future[Any], end: int) -> int:
    """The offset of the first record from the time asked for, after waiting; `end` if none is.

    Raises:
        KafkaException: see `offset_in`.
    """
    return end if answer.result().offset == OFFSET_END else min(offset_in(answer), end)


@dataclass(frozen=True, slots=True)
class Ends:
    """End offsets that the broker gave for a question sent at `asked_at`, by the asker's clock.

    They are `complete` unless it gave none for some of the places, such as for want of a leader.
    """

    asked_at: float
    offsets: Mapping[Place, int]
    complete: bool = True


class EndOffsetsPoll:
    """Asks for end offsets, one question at a time, without waiting for the answers."""

    def __init__(self, admin: AdminClient, prefix: str, outage: Outage) -> None:
        self._admin = admin
        self._prefix = prefix
        self._outage = outage
        self._open: dict[Place, Future[Any]] = {}
        self.asked_at = 0.0

    def ask(self, places: Iterable[Place], now: float) -> None:
        """Ask at the time `now`, unless a question is open."""
        if not self._open:
            self.asked_at = now
            self._open = request_offsets(
                self._admin, self._prefix, places, latest(), _PATIENCE_SECONDS
            )

    def answer(self) -> Ends | None:
        """The answer to the open question, given once; None if there is none yet, or none came.

        A partition without a leader says nothing about the others: beside their answers, it is no
        outage.
        """
        if not self._open or not all(each.done() for each in self._open.values()):
            return None
        answers, self._open = self._open, {}
        offsets: dict[Place, int] = {}
        failed: list[KafkaException] = []
        for place, answer in answers.items():
            try:
                offsets[place] = offset_in(answer)
            except KafkaException as error:
                failed.append(error)
        for failure in failed:
            if not offsets or failure.args[0].code() != KafkaError.LEADER_NOT_AVAILABLE:
                self._outage.failed(failure)
        return Ends(self.asked_at, offsets, not failed) if offsets else None


def earliest() -> OffsetSpec:
    """The first offset that still exists."""
    spec: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    return spec


def latest() -> OffsetSpec:
    """The offset after the last record or marker."""
    spec: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    return spec


def since(milliseconds: int) -> OffsetSpec:
    """The first offset whose record has this time or a later one; read it with `offset_since`."""
    spec: OffsetSpec = OffsetSpec.for_timestamp(milliseconds)
    return spec

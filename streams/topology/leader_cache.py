"""An admin client that knows the leaders of partitions before it asks for their offsets."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from confluent_kafka import OFFSET_END, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, OffsetSpec

from streams.process.daemon_thread import DaemonThread

_BELIEVED_SECONDS = 2.0
_CACHED_MS = 10_000
"""How long librdkafka believes the metadata: longer than it is believed here, with room to ask."""
_PATIENCE_SECONDS = 5.0

Answers = dict[TopicPartition, Future[Any]]


class LeaderCachingAdmin(AdminClient):
    """Reads the cluster's metadata before it asks for offsets, unless it did within 2 s.

    Were librdkafka to look for a leader itself, the calling thread would use a question that
    librdkafka's own thread may answer and free meanwhile. That ends the whole process by a signal,
    in `list_offsets`. librdkafka looks for no leader that it has in its cache, and it keeps a
    leader that is gone there until the metadata is read again.
    """

    def __init__(self, conf: Mapping[str, Any]) -> None:
        super().__init__({**conf, "metadata.max.age.ms": _CACHED_MS})
        # Futures refer to it, and never to this client: librdkafka's thread, which lets go of
        # futures, must not be the one that destroys the client.
        self._leaders = _Leaders()
        self._reading = threading.Lock()

    def list_offsets(  # type: ignore[override]  # the library's own differs in the same way
        self, topic_partition_offsets: Mapping[TopicPartition, OffsetSpec], **kwargs: Any
    ) -> Answers:
        """The library's, which never waits; the future of a leaderless partition says so.

        `request_timeout` bounds all that it takes.
        """
        if self._leaders.known(topic_partition_offsets):
            return self._ask(topic_partition_offsets, **kwargs)
        asked = dict(topic_partition_offsets)
        answers: Answers = {place: Future() for place in asked}
        DaemonThread("leaders", partial(self._read_and_ask, answers, asked, kwargs)).start()
        return answers

    def _ask(self, asked: Mapping[TopicPartition, OffsetSpec], **kwargs: Any) -> Answers:
        leaderless = self._leaders.leaderless
        led = {p: spec for p, spec in asked.items() if (p.topic, p.partition) not in leaderless}
        answers: Answers = super().list_offsets(led, **kwargs) if led else {}
        for answer in answers.values():
            answer.add_done_callback(self._leaders.doubt)
        return {place: answers.get(place) or _leaderless() for place in asked}

    def _read_and_ask(
        self, answers: Answers, asked: Mapping[TopicPartition, OffsetSpec], kwargs: dict[str, Any]
    ) -> None:
        until = time.monotonic() + kwargs.get("request_timeout", _PATIENCE_SECONDS)
        try:
            self._read(asked, until)
            given = self._ask(asked, **{**kwargs, "request_timeout": _left(until)})
        except Exception as error:
            for answer in answers.values():
                answer.set_exception(error)
            return
        for place, each in given.items():
            each.add_done_callback(partial(_pass_on, answers[place]))

    def _read(self, asked: Iterable[TopicPartition], until: float) -> None:
        """Read the metadata, unless another thread has read it meanwhile."""
        if not self._reading.acquire(timeout=_left(until)):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        try:
            if not self._leaders.known(asked):
                self._leaders.learn(self.list_topics(timeout=_left(until)))
        finally:
            self._reading.release()


class _Leaders:
    """What the metadata last told of topics and of partitions without a leader."""

    def __init__(self) -> None:
        self.leaderless: frozenset[tuple[str, int]] = frozenset()
        self._topics: frozenset[str] = frozenset()
        self._until = float("-inf")

    def known(self, places: Iterable[TopicPartition]) -> bool:
        """Whether it may be believed of these."""
        fresh = time.monotonic() < self._until
        return fresh and all(place.topic in self._topics for place in places)

    def learn(self, metadata: ClusterMetadata) -> None:
        self._topics = frozenset(metadata.topics)
        self.leaderless = frozenset(
            (name, number)
            for name, topic in metadata.topics.items()
            for number, partition in topic.partitions.items()
            if partition.leader < 0
        )
        self._until = time.monotonic() + _BELIEVED_SECONDS

    def doubt(self, answer: Future[Any]) -> None:
        """Believe it no more once a question failed: librdkafka may have dropped a leader."""
        if answer.exception() is not None or answer.result().offset < OFFSET_END:
            self._until = float("-inf")


def _pass_on(to: Future[Any], answer: Future[Any]) -> None:
    error = answer.exception()
    if error is None:
        to.set_result(answer.result())
    else:
        to.set_exception(error)


def _leaderless() -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE)))
    return future


def _left(until: float) -> float:
    return max(0.01, until - time.monotonic())

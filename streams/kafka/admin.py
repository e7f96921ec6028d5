"""An admin client that knows the leaders of partitions before it asks for their offsets."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from streams.kafka.leaders import Leaders
from streams.process.daemon_thread import DaemonThread
from streams.settings import Settings

_CACHED_MS = 10_000
"""How long librdkafka believes the metadata: for longer than `Leaders` does."""
_BROKERS_MS = 1_000
"""How often librdkafka is to ask which brokers there are; it does so every 10 s at most. Otherwise
5 minutes pass before it leaves out one that hangs. All brokers are asked for their groups, and any
one, always the same, for the settings of topics."""
_PATIENCE_SECONDS = 5.0
_READ_SECONDS = 1.5
_SLOW_READ_SECONDS = 3.0
"""How long a broker may take to tell the metadata, before they are asked for anew, and how long the
next time, because all may be slow. librdkafka itself gives up one that hangs."""
_LEAST_SECONDS = 1.0
"""The shortest timeout given to librdkafka: it frees a request whose timeout is over, even while
the request is still being made."""

Answers = dict[TopicPartition, Future[Any]]


@dataclass(frozen=True, slots=True)
class _Question:
    """What was asked, the answers to be, and when the asker's patience ends."""

    asked: Mapping[TopicPartition, OffsetSpec]
    answers: Answers
    until: float
    options: Mapping[str, Any]


class LeaderCachingAdmin(AdminClient):
    """Asks for offsets with leaders that the cluster's metadata has named within 2 s.

    Were librdkafka to look for a leader itself, the calling thread would use a question that
    librdkafka's own thread may answer and free meanwhile. That ends the whole process by a signal,
    in `list_offsets`. librdkafka looks for no leader that it has in its cache, and it keeps a
    leader that is gone there until the metadata is read again. In an election it may still look, if
    it drops a leader or hears that a broker is gone just when another question is asked, or if
    brokers name different leaders.

    It keeps a connection to each broker. With sparse connections, librdkafka's default, a question
    for a broker that refuses connections makes it dial again at once, thousands of times a second,
    for as long as the question lasts: its look-up of that broker cancels the pause.
    """

    def __init__(self, conf: Mapping[str, Any]) -> None:
        super().__init__(
            {
                **conf,
                "enable.sparse.connections": False,
                "metadata.max.age.ms": _CACHED_MS,
                "topic.metadata.refresh.interval.ms": _BROKERS_MS,
            }
        )
        # Futures and their errors refer to it, and never to this client: librdkafka's thread, which
        # lets go of them, must not be the one that destroys the client.
        self._leaders = Leaders()
        self._lock = threading.Lock()
        self._waiting: deque[_Question] = deque()

    def list_offsets(  # type: ignore[override]  # the library's own differs in the same way
        self, topic_partition_offsets: Mapping[TopicPartition, OffsetSpec], **kwargs: Any
    ) -> Answers:
        """The library's, which never waits; a partition without leader gets that error.

        Questions reach the brokers in their order. `request_timeout` counts from this call, but one
        that reaches a broker has a second at least.
        """
        asked = dict(topic_partition_offsets)
        until = time.monotonic() + kwargs.pop("request_timeout", _PATIENCE_SECONDS)
        answers: Answers = {place: AdminClient._create_future() for place in asked}
        question = _Question(asked, answers, until, kwargs)
        with self._lock:
            if not self._waiting and self._leaders.known(asked):
                self._ask(question)
                return answers
            if not self._waiting:
                DaemonThread("leaders", self._ask_all).start()
            self._waiting.append(question)
        return answers

    def _ask_all(self) -> None:
        """Ask what waits, and end once nothing does."""
        left = True
        while left:
            with self._lock:
                question = self._waiting[0]
            self._answer(question)
            with self._lock:
                self._waiting.popleft()
                left = bool(self._waiting)

    def _answer(self, question: _Question) -> None:
        try:
            self._read(question)
            if time.monotonic() >= question.until:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            self._ask(question)
        except Exception as error:
            for answer in question.answers.values():
                if not answer.done():
                    # The traceback would refer to this client.
                    answer.set_exception(error.with_traceback(None))

    def _ask(self, question: _Question) -> None:
        errors = {place: self._leaders.error(place) for place in question.asked}
        led = {place: spec for place, spec in question.asked.items() if errors[place] is None}
        if led:
            seconds = _left(question.until, _LEAST_SECONDS)
            given = super().list_offsets(led, request_timeout=seconds, **question.options)
            for place, answer in given.items():
                told = partial(_pass_on, self._leaders, question.answers[place])
                answer.add_done_callback(told)
        for place, error in errors.items():
            if error is not None:
                question.answers[place].set_exception(KafkaException(error))

    def _read(self, question: _Question) -> None:
        """Read the metadata; librdkafka's own is used if no broker answers in time."""
        patience = _READ_SECONDS
        while not self._leaders.known(question.asked) and time.monotonic() < question.until:
            began, doubts = time.monotonic(), self._leaders.doubts
            try:
                metadata = self.list_topics(timeout=min(patience, _left(question.until)))
            except KafkaException:
                if self._leaders.cached(question.asked):
                    return
                patience = _SLOW_READ_SECONDS
                continue
            missing = {place.topic for place in question.asked} - metadata.topics.keys()
            self._leaders.learn(metadata, self._refusals(missing, question), began, doubts)
            if self._leaders.doubts == doubts:
                return

    def _refusals(self, topics: Iterable[str], question: _Question) -> dict[str, KafkaError]:
        """Why topics are not in the metadata: they do not exist, or the user may not see them."""
        names = list(topics)
        if not names:
            return {}
        described = self.describe_topics(
            TopicCollection(names), request_timeout=min(_READ_SECONDS, _left(question.until))
        )
        errors = {name: answer.exception() for name, answer in described.items()}
        return {name: e.args[0] for name, e in errors.items() if isinstance(e, KafkaException)}


def _pass_on(leaders: Leaders, to: Future[Any], answer: Future[Any]) -> None:
    leaders.judge(answer)
    error = answer.exception()
    if error is None:
        to.set_result(answer.result())
    else:
        to.set_exception(error)


def _left(until: float, least: float = 0.01) -> float:
    return max(least, until - time.monotonic())


def admin_client(settings: Settings) -> LeaderCachingAdmin:
    """An admin client that finds new leaders and leaves brokers that hang: `LeaderCachingAdmin`."""
    return LeaderCachingAdmin(settings.client())

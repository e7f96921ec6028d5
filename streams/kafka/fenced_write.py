"""Writes records in a transaction, if nobody else has begun to write under the same id meanwhile.

Opening a write ends the one that another process left open, and fences that process: its records
are not committed. So whoever opens a write, then reads the topics to their ends, and then commits,
has seen every record of an earlier writer of this kind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streams.errors import KafkaUnavailable, TidegateError
from streams.kafka import connections
from streams.kafka.clients import producer_config
from streams.kafka.connections import Connections
from streams.kafka.failures import Verdict, classify, denied, not_sent, tell_missing
from streams.process.daemon_thread import in_daemon_thread
from streams.settings import Settings

log = structlog.get_logger(__name__)

_CALL_SECONDS = 5.0
_HUNG_SESSIONS = 3.0
"""librdkafka can wait for ever for a coordinator that it knew before an outage, and blocks its
thread: run it in a thread that nothing else needs."""


class Unsettled(TidegateError):
    """Another process has opened a write, or the commit was not answered.

    Until the next write is opened, it is unknown whether this one was committed.
    """


@dataclass(frozen=True, slots=True)
class OutgoingRecord:
    """A record to be written; the topic is a logical one."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int
    headers: tuple[tuple[str, bytes], ...] = ()


class FencedWrites:
    """Opens writes under one transactional id, which has the prefix of the topics."""

    def __init__(self, settings: Settings, transactional_id: str) -> None:
        self._settings = settings
        self._id = f"{settings.topic_prefix}{transactional_id}"

    async def open(self) -> FencedWrite:
        """Open a write; every earlier one of any process is then committed or never will be.

        Raises:
            KafkaUnavailable: the broker did not answer in time.
        """
        try:
            async with asyncio.timeout(_HUNG_SESSIONS * self._settings.session_seconds):
                return await in_daemon_thread(partial(FencedWrite, self._settings, self._id))
        except (KafkaException, TimeoutError) as error:
            if denied(error):
                tell_missing([f"Write on transactional id {self._id}"])
            raise KafkaUnavailable(f"no transaction can be opened: {error}") from error


class FencedWrite:
    """Transactions one after the other, until one fails; it blocks its thread while it opens."""

    def __init__(self, settings: Settings, transactional_id: str) -> None:
        self._prefix = settings.topic_prefix
        self._timeout = settings.session_seconds
        self._offsets: dict[int, int] = {}
        self._too_large: KafkaError | None = None
        self._connections = Connections()
        own = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": settings.session_timeout_ms,
            "logger": self._connections,
            "log_level": connections.LOG_LEVEL,
        }
        self._producer = Producer(producer_config(settings, **own))
        self._until_answered(partial(self._producer.init_transactions, _CALL_SECONDS))

    @property
    def is_broken(self) -> bool:
        """Whether a connection broke: then a late request may end half of the next transaction."""
        self._producer.poll(0)
        return self._connections.broken

    async def commit(self, *records: OutgoingRecord) -> list[int]:
        """Return the records' offsets once they are committed together.

        After any error, open another write: this one can do no more.

        Raises:
            Unsettled: once another write is open, look whether this one was committed.
            RecordTooLarge: a topic takes no record of this size; nothing is committed.
        """
        send = partial(self._commit, records)
        try:
            async with asyncio.timeout(_HUNG_SESSIONS * self._timeout):
                return await in_daemon_thread(send)
        except TimeoutError:
            raise Unsettled("the commit did not return in time") from None
        except KafkaException as error:
            log.info("a transaction was not committed", error=str(error.args[0]))
            raise Unsettled(str(error.args[0])) from error

    def _commit(self, records: Sequence[OutgoingRecord]) -> list[int]:
        self._offsets.clear()
        self._producer.begin_transaction()
        try:
            self._send(records)
        except KafkaException as error:
            cause = self._too_large or error.args[0]
            if cause.code() != KafkaError.MSG_SIZE_TOO_LARGE:
                raise
            self._abort()
            topics = ", ".join(sorted({each.topic for each in records}))
            raise not_sent(topics, cause) from error
        if len(self._offsets) < len(records):
            raise Unsettled("written at unknown offsets")
        return [self._offsets[place] for place in range(len(records))]

    def _send(self, records: Sequence[OutgoingRecord]) -> None:
        for place, each in enumerate(records):
            told = partial(self._delivered, place)
            topic = self._prefix + each.topic
            self._producer.produce(
                topic,
                each.value,
                each.key,
                each.partition,
                on_delivery=told,
                headers=list(each.headers),
            )
        self._until_answered(partial(self._producer.commit_transaction, _CALL_SECONDS))

    def _abort(self) -> None:
        """End a transaction that cannot be committed: readers wait behind an open one."""
        with suppress(KafkaException):  # the next write's opening ends it then
            self._until_answered(partial(self._producer.abort_transaction, _CALL_SECONDS))

    def _delivered(self, place: int, error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            self._too_large = error
        if error is None and offset is not None:
            self._offsets[place] = offset

    def _until_answered(self, call: Callable[[], object]) -> None:
        due = time.monotonic() + self._timeout
        while True:
            try:
                call()
                return
            except KafkaException as error:
                if classify(error.args[0]) is not Verdict.RETRY or time.monotonic() > due:
                    raise

"""Writes one record if nobody else has begun to write one meanwhile.

All processes share one transactional id. Opening a write ends the one that another process left
open, and fences that process: its record is not committed. So whoever opens a write, then reads the
topic to its end, and then commits, has seen every record of an earlier writer of this kind.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streams.errors import KafkaUnavailable, TidegateError
from streams.kafka.clients import producer_config
from streams.kafka.failures import Verdict, classify, denied, tell_missing
from streams.process.daemon_thread import in_daemon_thread
from streams.settings import Settings

log = structlog.get_logger(__name__)

_CALL_SECONDS = 5.0
_SILENT_LOG = logging.getLogger(f"{__name__}.librdkafka")
_SILENT_LOG.addHandler(logging.NullHandler())
_SILENT_LOG.propagate = False
"""Drops librdkafka's log lines about fencing, because an error reports it anyway."""
_HUNG_SESSIONS = 3.0
"""librdkafka can wait for ever for a coordinator that it knew before an outage, and blocks its
thread: run it in a thread that nothing else needs."""


class Unsettled(TidegateError):
    """Another process has opened a write, or the commit was not answered.

    Until the next write is opened, it is unknown whether this one was committed.
    """


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
    """One transaction of one record; it blocks its thread while it opens."""

    def __init__(self, settings: Settings, transactional_id: str) -> None:
        self._prefix = settings.topic_prefix
        self._timeout = settings.session_seconds
        self._offset: int | None = None
        own = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": settings.session_timeout_ms,
            "logger": _SILENT_LOG,
        }
        self._producer = Producer(producer_config(settings, **own))
        self._until_answered(partial(self._producer.init_transactions, _CALL_SECONDS))

    async def commit(self, topic: str, key: bytes, value: bytes | None, *, partition: int) -> int:
        """Return the record's offset once it is committed.

        Raises:
            Unsettled: open another write, then look whether this one was committed.
        """
        send = partial(self._commit, topic, key, value, partition)
        try:
            async with asyncio.timeout(_HUNG_SESSIONS * self._timeout):
                return await in_daemon_thread(send)
        except TimeoutError:
            raise Unsettled("the commit did not return in time") from None
        except KafkaException as error:
            log.info("a conditional write was not committed", error=str(error.args[0]))
            raise Unsettled(str(error.args[0])) from error

    def _commit(self, topic: str, key: bytes, value: bytes | None, partition: int) -> int:
        self._producer.begin_transaction()
        self._producer.produce(
            self._prefix + topic, value, key, partition, on_delivery=self._delivered
        )
        self._until_answered(partial(self._producer.commit_transaction, _CALL_SECONDS))
        if self._offset is None:
            raise Unsettled("written at an unknown offset")
        return self._offset

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._offset = message.offset()

    def _until_answered(self, call: Callable[[], object]) -> None:
        due = time.monotonic() + self._timeout
        while True:
            try:
                call()
                return
            except KafkaException as error:
                if classify(error.args[0]) is not Verdict.RETRY or time.monotonic() > due:
                    raise

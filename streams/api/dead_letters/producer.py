"""The transaction that sends dead records in again: it writes a record and its letter, or neither.

All operators of a cluster share one transactional id, and each transaction has its own producer.
Opening a transaction ends the one that another operator left open, and fences that operator. So if
two operators have read the same letter as unmarked, only one of them commits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streams.api import STAGE
from streams.errors import KafkaUnavailable, TidegateError
from streams.kafka.clients import producer_config
from streams.kafka.failures import Verdict, classify, classify_produce, denied, tell_missing
from streams.process.daemon_thread import in_daemon_thread
from streams.settings import Settings
from streams.topology.model import MAX_MESSAGE_BYTES

log = structlog.get_logger(__name__)

_CALL_SECONDS = 5.0
_SILENT_LOG = logging.getLogger(f"{__name__}.librdkafka")
_SILENT_LOG.addHandler(logging.NullHandler())
_SILENT_LOG.propagate = False
"""Drops librdkafka's log lines about fencing, because an error reports it anyway."""
_NOW = 0
"""librdkafka reads this timestamp as the time of sending."""
_HUNG_SESSIONS = 3.0
"""librdkafka can wait for ever for a coordinator that it knew before an outage, and blocks its
thread: run it in a thread that nothing else needs."""


class NotTaken(TidegateError):
    """The broker will never take one of the records; nothing was committed."""


class Unsettled(TidegateError):
    """Until the next transaction is opened, it is unknown whether this one was committed."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record for a partition of a logical topic; `timestamp` (ms) defaults to now."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp: int | None = None


class RecordReplays:
    """Opens one transaction at a time; belongs to one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.turn = asyncio.Lock()
        """Held from the opening of a transaction to its end."""

    async def open(self) -> ReplayTransaction:
        """Open a transaction; every earlier one of any operator is then committed or aborted.

        Raises:
            KafkaUnavailable: the broker did not answer in time.
        """
        try:
            async with asyncio.timeout(_HUNG_SESSIONS * self._settings.session_seconds):
                return await in_daemon_thread(partial(ReplayTransaction, self._settings))
        except (KafkaException, TimeoutError) as error:
            if denied(error):
                tell_missing([f"Write on transactional id {transactional_id(self._settings)}"])
            raise KafkaUnavailable(f"no transaction can be opened: {error}") from error


def transactional_id(settings: Settings) -> str:
    """The one under which all operator processes write."""
    return f"{settings.topic_prefix}{STAGE}.replays"


class ReplayTransaction:
    """One transaction; it blocks its thread while it opens."""

    def __init__(self, settings: Settings) -> None:
        self._prefix = settings.topic_prefix
        self._timeout = settings.session_seconds
        self._failed: list[KafkaError] = []
        self._producer = Producer(
            producer_config(
                settings,
                **{
                    "transactional.id": transactional_id(settings),
                    "transaction.timeout.ms": settings.session_timeout_ms,
                    "message.max.bytes": MAX_MESSAGE_BYTES,
                    "logger": _SILENT_LOG,
                },
            )
        )
        self._until_answered(partial(self._producer.init_transactions, _CALL_SECONDS))

    async def commit(self, outgoing: Sequence[Outgoing]) -> None:
        """Return once all records are committed.

        Raises:
            NotTaken: nothing was committed, and a repetition would fail as well.
            Unsettled: open another transaction, then look what this one has written.
        """
        try:
            async with asyncio.timeout(_HUNG_SESSIONS * self._timeout):
                await in_daemon_thread(partial(self._commit, outgoing))
        except TimeoutError:
            raise Unsettled("the commit did not return in time") from None

    def _commit(self, outgoing: Sequence[Outgoing]) -> None:
        try:
            self._producer.begin_transaction()
            for each in outgoing:
                self._produce(each)
            self._until_answered(partial(self._producer.commit_transaction, _CALL_SECONDS))
        except KafkaException as error:
            self._abort(error.args[0])

    def _produce(self, each: Outgoing) -> None:
        self._producer.produce(
            self._prefix + each.topic,
            each.value,
            each.key,
            each.partition,
            on_delivery=self._delivered,
            timestamp=each.timestamp or _NOW,
            headers=list(each.headers),
        )
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed.append(error)

    def _abort(self, error: KafkaError) -> None:
        # After a refused record the commit reports only a failure; the delivery has the reason.
        cause = self._failed[0] if self._failed else error
        verdict = classify_produce(cause) if self._failed else classify(cause)
        log.warning("replay of records aborted", error=str(cause))
        if verdict not in (Verdict.ABORT, Verdict.REFUSE):
            raise Unsettled(str(cause))
        try:
            self._until_answered(partial(self._producer.abort_transaction, _CALL_SECONDS))
        except KafkaException as again:
            raise Unsettled(str(again.args[0])) from again
        if verdict is Verdict.REFUSE:
            raise NotTaken(f"{cause.name()}: {cause.str()}")
        raise Unsettled(str(cause))

    def _until_answered(self, call: Callable[[], object]) -> None:
        due = time.monotonic() + self._timeout
        while True:
            try:
                call()
                return
            except KafkaException as error:
                if classify(error.args[0]) is not Verdict.RETRY or time.monotonic() > due:
                    raise

"""Every Kafka error is classified once, here: the class says what the caller does next.

Sources: librdkafka's "Transactional producer API" (INTRODUCTION.md) and KIP-360, KIP-447. An error
that is neither retriable nor abortable leaves the producer in a state that no source guarantees, so
the producer is replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto

import structlog
from confluent_kafka import KafkaError, KafkaException, Message

from streams.errors import KafkaUnavailable, RecordTooLarge
from streams.process.boot_clock import boot_seconds

log = structlog.get_logger(__name__)


_RECENT_SECONDS = 60.0


class Verdict(Enum):
    """The class of an error, which decides how the caller reacts."""

    RETRY = auto()
    """Repeat the same call, as long as the transaction can still be committed."""
    ABORT = auto()
    """Abort the transaction, do its work again."""
    REFUSE = auto()
    """Abort; doing the same again is useless."""
    RECREATE = auto()
    """Replace the producer; only the broker knows whether its transaction was committed."""
    FENCED = auto()
    """Another process has taken this one's place in the group.

    The group alone decides that. Two processes that start at once may fence each other's producers,
    and the last one to ask wins: the process that the group keeps takes a new producer.
    """


_PRODUCER_FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
MISSING = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
"""Codes that say that a topic or partition does not exist."""

_TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})

REFUSED = MISSING | _TOO_LARGE | {KafkaError.INVALID_RECORD}
"""Codes of outputs that the broker will never take.

A missing permission or a wrong clock is not among them: no record is at fault, and skipping records
would lose them all. Their stage logs it at each try until it is fixed.
"""

UNREADABLE = MISSING | {KafkaError.TOPIC_AUTHORIZATION_FAILED}
"""Codes from which a consumer does not recover by itself."""

GONE = frozenset({KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET})
"""Codes that say that the log no longer has an offset."""

DAMAGED = frozenset(
    {
        KafkaError._BAD_MSG,
        KafkaError._BAD_COMPRESSION,
        KafkaError._NOT_IMPLEMENTED,
    }
)
"""Codes of a batch that fails its checksum, or of which the format makes no sense."""

DENIED = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""Codes that say that the user may not do this."""

GRANTED_BY = "`tidegate topology describe --acls` prints what grants them"
"""The next step of every message about missing rights."""

_UNDELIVERED = frozenset({KafkaError._INCONSISTENT, KafkaError._STATE})


def damage(message: Message) -> KafkaUnavailable | None:
    """The error of a batch that the broker gives damaged; None for any other message.

    An answer of the broker that belongs to no partition may have the same codes.

    Read no further after it: librdkafka asks for the batch over and over without a pause, or goes
    on at an offset that the damaged bytes name, and then says that this one is not there.
    """
    error = message.error()
    if error is None or error.code() not in DAMAGED or not message.topic():
        return None
    return KafkaUnavailable(
        f"{message.topic()}, partition {message.partition()}: the broker gives a damaged batch at "
        f"offset {message.offset()} ({error.str()}): mend its disk, or let another replica lead; "
        "nothing was skipped"
    )


def classify(error: KafkaError) -> Verdict:
    """The verdict on an error of the producer.

    After a refusal, librdkafka only reports that some message was not delivered, without naming it:
    with `_INCONSISTENT` for a commit, and with `_STATE` for a request that was in progress then.
    The cause is found by trying the inputs one by one.
    """
    code = error.code()
    if code == KafkaError.FENCED_INSTANCE_ID:
        return Verdict.FENCED
    if error.fatal() or code in _PRODUCER_FENCED:
        return Verdict.RECREATE
    if code in REFUSED or (code in _UNDELIVERED and error.txn_requires_abort()):
        return Verdict.REFUSE
    if error.txn_requires_abort():
        return Verdict.ABORT
    return Verdict.RETRY if error.retriable() else Verdict.RECREATE


def classify_produce(error: KafkaError) -> Verdict:
    """The verdict on an error of `produce`: `_STATE` after an earlier record was not delivered."""
    return Verdict.REFUSE if error.code() == KafkaError._STATE else classify(error)


def classify_read(error: KafkaError) -> Verdict:
    """The verdict on an error of the consumer: fenced, or librdkafka retries by itself."""
    fenced = is_fatal(error) or error.code() == KafkaError.FENCED_INSTANCE_ID
    return Verdict.FENCED if fenced else Verdict.RETRY


def not_sent(topic: str, error: KafkaError) -> KafkaUnavailable:
    """The error of a record that was not acknowledged."""
    kind = RecordTooLarge if error.code() in _TOO_LARGE else KafkaUnavailable
    hint = f": the user may not write it, {GRANTED_BY}" if error.code() in DENIED else ""
    return kind(f"{topic}: {error}{hint}")


def denied(error: object) -> bool:
    """Whether a client's error, or an exception of it, says that the user may not do this."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    return isinstance(cause, KafkaError) and cause.code() in DENIED


@contextmanager
def needing(right: str) -> Iterator[None]:
    """Name the right, such as `Read on group dedup`, in an error that says that it is missing."""
    try:
        yield
    except KafkaException as error:
        if not denied(error):
            raise
        cause: KafkaError = error.args[0]
        told = f"{cause.str()}: {right} is missing, {GRANTED_BY}"
        raise KafkaException(KafkaError(cause.code(), told)) from error


def tell_missing(rights: Sequence[str], **facts: str | None) -> None:
    """Log rights that the user of this process lacks, such as `Read on topic events`."""
    log.error(f"rights on Kafka are missing: {GRANTED_BY}", missing=list(rights), **facts)


def is_fatal(error: KafkaError) -> bool:
    """Whether the client that has this error can do nothing more (librdkafka, INTRODUCTION)."""
    return error.fatal() or error.code() in {KafkaError._FATAL, KafkaError._FENCED}


class Outage:
    """Logs once that Kafka does not answer, and once that it answers again.

    `failed_at` is the time at which a request last failed, by the boot clock.
    """

    def __init__(self) -> None:
        self.seen = False
        self.failed_at = float("-inf")
        self._down_since: float | None = None

    @property
    def over(self) -> bool:
        """Whether Kafka has answered, and still does."""
        return self.seen and self._down_since is None

    @property
    def recent(self) -> bool:
        """Whether a request failed within the last minute."""
        return boot_seconds() - self.failed_at < _RECENT_SECONDS

    def failed(self, error: object) -> None:
        """Note that a request was not answered."""
        self.failed_at = boot_seconds()
        if self._down_since is None:
            what = f"kafka refuses: {GRANTED_BY}" if denied(error) else "kafka does not answer"
            log.warning(f"{what}: trying on", error=str(error))
            self._down_since = self.failed_at

    def answered(self, asked_at: float | None = None) -> None:
        """Note an answered request; one asked before the outage began proves nothing."""
        if self._down_since is not None:
            if asked_at is not None and asked_at < self._down_since:
                return
            log.info("kafka answers", after_seconds=round(boot_seconds() - self._down_since, 1))
            self._down_since = None
        self.seen = True

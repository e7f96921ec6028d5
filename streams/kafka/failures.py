"""Every Kafka error is told apart once, here: what the caller does next.

Sources: librdkafka's "Transactional producer API" (INTRODUCTION.md) and KIP-360, KIP-447. An
error that is neither retriable nor abortable leaves the producer in a state that nobody
vouches for, so it is replaced.
"""

from __future__ import annotations

from enum import Enum, auto

import structlog
from confluent_kafka import KafkaError

from streams.process.boot_clock import boot_seconds

log = structlog.get_logger(__name__)


_RECENT_SECONDS = 60.0


class Verdict(Enum):
    """What to do about an error."""

    RETRY = auto()
    """Repeat the same call, as long as the transaction can still be committed."""
    ABORT = auto()
    """Abort the transaction, do its work again."""
    REFUSE = auto()
    """Abort; doing the same again is useless."""
    RECREATE = auto()
    """Replace the producer; whether its transaction was committed, the broker must tell."""
    FENCED = auto()
    """Another process has taken this one's place in the group.

    The group alone decides that. A producer may be fenced by whoever asked last, of two processes
    that started at once each the other's: the one that the group keeps takes a new producer.
    """


_PRODUCER_FENCED = frozenset({
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
})  # fmt: skip
REFUSED = frozenset({
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
})  # fmt: skip
"""Codes of outputs that the broker will never take.

A missing right or a clock that is off is not among them: that is no record's fault, and passing
records by would lose them all. Their stage says so at each try until it is mended.
"""


MISSING = frozenset({
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
})  # fmt: skip
"""Those that say that there is no such topic or partition."""

_UNDELIVERED = frozenset({KafkaError._INCONSISTENT, KafkaError._STATE})


def classify(error: KafkaError) -> Verdict:
    """The verdict on an error of the producer.

    That some message was not delivered, without saying which, is how librdkafka tells a commit of
    a refusal (`_INCONSISTENT`), and a request that was under way when it came (`_STATE`): its cause
    is found by trying the inputs one by one.
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
    """The verdict on what `produce` raises: `_STATE` once a record before it was not delivered."""
    return Verdict.REFUSE if error.code() == KafkaError._STATE else classify(error)


def classify_read(error: KafkaError) -> Verdict:
    """The verdict on an error of the consumer: fenced, or librdkafka tries on by itself."""
    fenced = error.fatal() or error.code() in {KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID}
    return Verdict.FENCED if fenced else Verdict.RETRY


class Outage:
    """Says once that Kafka does not answer, and once that it does again.

    `failed_at` is when, on the monotonic clock, a request last failed.
    """

    def __init__(self) -> None:
        self.seen = False
        self.failed_at = float("-inf")
        self._down_since: float | None = None

    @property
    def over(self) -> bool:
        """Whether Kafka was seen, and answers."""
        return self.seen and self._down_since is None

    @property
    def recent(self) -> bool:
        """Whether a request failed within the last minute."""
        return boot_seconds() - self.failed_at < _RECENT_SECONDS

    def failed(self, error: object) -> None:
        """A request was not answered."""
        self.failed_at = boot_seconds()
        if self._down_since is None:
            log.warning("kafka does not answer: trying on", error=str(error))
            self._down_since = self.failed_at

    def answered(self, asked_at: float | None = None) -> None:
        """A request was answered; one asked before the outage began proves nothing."""
        if self._down_since is not None:
            if asked_at is not None and asked_at < self._down_since:
                return
            log.info("kafka answers", after_seconds=round(boot_seconds() - self._down_since, 1))
            self._down_since = None
        self.seen = True

"""Kafka transactions: outputs, changelogs and input positions become true together.

Each process has one transactional producer. Its `transactional.id` is stable for the instance, so
that the instance's next start fences it and settles what it left open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import structlog
from confluent_kafka import KafkaError, Producer

from streams.errors import Fenced
from streams.kafka import connections
from streams.kafka.connections import Connections
from streams.kafka.failures import Outage, Verdict, classify_produce, tell_missing
from streams.process.boot_clock import boot_seconds
from streams.runtime import metrics
from streams.runtime.link import LINK, Link, handing_out
from streams.runtime.own_records import OwnMarks, Written
from streams.runtime.partition_task import PartitionTask
from streams.runtime.producer_calls import CALL_SECONDS, CallFailed, ProducerCalls
from streams.runtime.sending import Refusal, Sending, positions
from streams.runtime.source import Source
from streams.runtime.step import OutputRefused, TransactionAborted
from streams.runtime.topics import StageTopics
from streams.tracing import steps

log = structlog.get_logger(__name__)

_CLOSING_SECONDS = 0.003  # about how long a transaction closes after its commit is answered


class ProducerLost(Exception):
    """The producer must be replaced; whether its transaction was committed is not known."""


class KafkaTransactions:
    """`Transactions` on a broker.

    The current group metadata, sent with the positions, fences a process that lost its
    partitions (KIP-447). It does not fence one that lost some and is still in the group, so each
    commit asks the source whether it still delivers them. While the broker commits, the source
    reads ahead. `config` is the producer's, without its `transactional.id`.
    """

    def __init__(
        self,
        stage: str,
        transactional_id: str,
        prefix: str,
        config: dict[str, Any],
        timeout_ms: int,
        source: Source,
        topics: StageTopics,
        outage: Outage,
        stopping: Callable[[], bool],
        link: Link | None = None,
    ) -> None:
        self._stage = stage
        self._prefix = prefix
        self._config = {
            **config,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
        }
        self._source = source
        self._topics = topics
        self._link = link
        self._outage = outage
        self._new_calls = partial(ProducerCalls, timeout_ms / 1000, outage, stopping)
        self._producer: Producer | None = None
        self._calls = self._new_calls()
        self._connections = Connections()
        self._opened = self._ended = 0.0
        self._said = ""
        self._marks = OwnMarks()

    def settle(self) -> None:
        """Make sure that whatever an earlier producer left open is committed or aborted.

        Raises:
            ProducerLost: not yet; try again.
            Stopped: told to stop before Kafka answered.
        """
        if self._producer is not None and self._opened > self._outage.failed_at:
            self._producer.poll(0)
            if not self._connections.broken:
                return
        self._open()

    def _open(self) -> None:
        # librdkafka lacks KIP-890: after a transactional timeout or a broken connection a late
        # request may meet the next transaction of the same producer (`connections`). After an
        # outage it may wait for ever for a coordinator that it knew (`watched`). So use a new
        # producer.
        self._calls.leave()
        self._calls = self._new_calls()
        self._connections = Connections()
        heard = {"logger": self._connections, "log_level": connections.LOG_LEVEL}
        producer = Producer({**self._config, **heard})
        try:
            self._calls.resume(lambda: producer.init_transactions(CALL_SECONDS))
        except CallFailed as failed:
            self._give_up(failed)
        self._producer = producer
        self._opened = boot_seconds()  # as the outage's times are
        self._said = ""

    def commit(self, tasks: Sequence[PartitionTask], *, alone: bool = False) -> None:
        """See `Transactions.commit`.

        Raises:
            OutputRefused, TransactionAborted: nothing was committed.
            ProducerLost: call `settle`, read the group's offsets, restore.
            Fenced: another instance has taken over.
        """
        self._refuse_unknown(tasks)
        if not self._source.delivering.issuperset(task.partition for task in tasks):
            log.info("partitions were taken away: what is not committed is dropped")
            raise TransactionAborted("partitions were taken away")
        self.settle()
        self._calls.begin()
        producer = self._producer
        assert producer is not None  # noqa: S101
        sending = Sending(producer, self._prefix, watch_all=alone)
        try:
            self._send(producer, sending, tasks)
        except CallFailed as failed:
            self._abort(producer, failed, alone, sending.refused)
        self._ended = time.monotonic()
        self._outage.answered()
        hand_out = handing_out(self._link, tasks)
        metrics.TRANSACTIONS.labels(self._stage, "committed").inc()
        metrics.STORE_WRITES.labels(self._stage).inc(sum(task.changes for task in tasks))
        seconds = time.monotonic() - self._calls.begun
        metrics.COMMIT_SECONDS.labels(self._stage).observe(seconds, steps.exemplar())
        try:
            for task in tasks:
                written = self._marks.written(task.partition, sending.offsets(task))
                task.committed(sending.ends(task), written)
                self._rest(task, written)
        finally:  # it is true, whatever becomes of the stores
            hand_out()

    def _send(self, producer: Producer, sending: Sending, tasks: Sequence[PartitionTask]) -> None:
        self._calls.once(producer.begin_transaction)
        # While the broker still closes the last transaction it refuses positions and partitions,
        # and librdkafka retries positions after 2 ms, but partitions after 20 ms. So send positions
        # first then; otherwise send records first, so that they travel meanwhile.
        closing = time.monotonic() - self._ended < _CLOSING_SECONDS
        if closing:
            self._positions(producer, tasks)
        self._calls.once(lambda: sending.send(tasks), classify_produce)
        if not closing:
            self._positions(producer, tasks)
        commit = partial(producer.commit_transaction, CALL_SECONDS)
        self._calls.commit(commit, self._source.read_ahead)

    def _rest(self, task: PartitionTask, written: Mapping[str, Written]) -> None:
        """Read only those of its own inputs in which it did not take everything."""
        for topic, own in written.items():
            place, position = (topic, task.partition), task.positions[topic]
            if position > own.last:
                self._source.pass_by(place, position)
            else:
                self._source.wake(place)

    def _positions(self, producer: Producer, tasks: Sequence[PartitionTask]) -> None:
        asked = positions(self._prefix, tasks), self._source.group(), CALL_SECONDS
        self._calls.watched(lambda: producer.send_offsets_to_transaction(*asked))

    def _refuse_unknown(self, tasks: Sequence[PartitionTask]) -> None:
        # Ask first: librdkafka holds a record of an unknown topic for 30 seconds.
        outputs = [o for task in tasks for o in task.outputs if o[0] != LINK]
        for topic, partition in {(topic, to) for topic, to, _ in outputs}:
            if not self._topics.exists(topic, partition):
                keys = (own[0].key for t, to, own in outputs if (t, to) == (topic, partition))
                detail = f"{topic}-{partition}: UNKNOWN_TOPIC_OR_PART"
                raise OutputRefused(detail, (topic, next(keys)), missing=True)
        for task in tasks:
            for store in task.stage.stores:
                self._topics.exists(store.changelog, task.partition)

    def _abort(
        self, producer: Producer, failed: CallFailed, alone: bool, refused: list[Refusal]
    ) -> NoReturn:
        metrics.TRANSACTIONS.labels(self._stage, "aborted").inc()
        self._topics.doubt()
        if failed.verdict not in {Verdict.ABORT, Verdict.REFUSE}:
            self._give_up(failed)
        try:
            self._calls.resume(lambda: producer.abort_transaction(CALL_SECONDS))
        except CallFailed as again:
            self._give_up(again)
        # librdkafka gives the sequence number of a record that it drops in an abort to its next
        # record. If the broker has stored the dropped one, whose answer was late, it takes the next
        # one for its repetition: it acknowledges that record and stores nothing.
        self._producer = None
        self._ended = time.monotonic()
        if failed.verdict is Verdict.REFUSE and (failed.proven or refused or not alone):
            raise _refusal(failed, refused)
        log.warning("transaction aborted", error=str(failed))
        raise TransactionAborted(str(failed))

    def _give_up(self, failed: CallFailed) -> NoReturn:
        # A static member whose session ended in an outage gets the error that it was fenced
        # (librdkafka#3437), as the loop knows; a real successor would fence it again. A member
        # that stood still gets the same error if the broker still knows it by the id that it gave
        # up meanwhile.
        alone = self._calls.outlived or self._outage.recent or self._source.rejoins
        if failed.verdict is Verdict.FENCED and not alone:
            raise Fenced(
                f"another process runs as this instance of {self._stage} ({failed}): "
                "give each its own --instance"
            )
        self._producer = None
        if str(failed) != self._said:  # log a continuing outage once
            self._tell_replaced(failed)
        self._said = str(failed)
        raise ProducerLost(str(failed))

    def _tell_replaced(self, failed: CallFailed) -> None:
        if failed.error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            transactional_id = self._config["transactional.id"]
            tell_missing([f"Write on transactional id {transactional_id}"], error=str(failed))
        else:
            log.warning("producer is replaced", error=str(failed))


def _refusal(failed: CallFailed, refused: Sequence[Refusal]) -> OutputRefused:
    if not refused:
        return OutputRefused(str(failed))
    detail = "; ".join(refusal.detail for refusal in refused)
    missing = all(refusal.missing for refusal in refused)
    return OutputRefused(detail, (refused[0].topic, refused[0].key), missing=missing)

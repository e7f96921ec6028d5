"""Kafka transactions: outputs, changelogs and input positions become true together.

One transactional producer a process, `transactional.id` stable for the instance, so that its
next start fences it and settles what it left open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from streams.errors import Fenced
from streams.kafka import SESSION_TIMEOUT_MS
from streams.runtime import metrics
from streams.runtime.executor import OutputRefused
from streams.runtime.failures import REFUSED, Outage, Verdict, classify
from streams.runtime.poison import Output
from streams.runtime.task import Task

log = structlog.get_logger(__name__)

_CALL_SECONDS = 5.0


class TransactionAborted(Exception):
    """Nothing was committed; the same work may succeed another time."""


class ProducerLost(Exception):
    """The producer must be replaced; whether its transaction was committed is not known."""


class Stopped(Exception):
    """The process was told to stop while Kafka did not answer."""


class _Failed(Exception):
    def __init__(self, verdict: Verdict, error: KafkaError) -> None:
        super().__init__(f"{error.name()}: {error.str()}")
        self.verdict = verdict
        self.proven = error.code() in REFUSED


class KafkaTransactions:
    """`Transactions` on a broker.

    `group` gives the consumer's group metadata of the moment: with the positions it is what
    fences a process that lost its partitions (KIP-447). `exists` tells whether a logical
    topic has a partition. `config` is the producer's, less its `transactional.id`.
    """

    def __init__(
        self,
        stage: str,
        transactional_id: str,
        prefix: str,
        config: dict[str, Any],
        group: Callable[[], object],
        exists: Callable[[str, int], bool],
        outage: Outage,
        stopping: Callable[[], bool],
    ) -> None:
        self._stage = stage
        self._prefix = prefix
        self._config = {
            **config,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": SESSION_TIMEOUT_MS,
        }
        self._group = group
        self._exists = exists
        self._outage = outage
        self._stopping = stopping
        self._producer: Producer | None = None
        self._timed_out = False
        self._begun = 0.0

    def settle(self) -> None:
        """See that what an earlier producer left open is committed or aborted.

        Raises:
            ProducerLost: not yet; try again.
            Fenced: another process opened the same transactional id at this very moment.
            Stopped: told to stop before Kafka answered.
        """
        if self._producer is None:
            self._open()

    def _open(self) -> None:
        self._producer = producer = Producer(self._config)
        self._timed_out = False
        self._begun = time.monotonic()
        try:
            self._resume(lambda: producer.init_transactions(_CALL_SECONDS))
        except _Failed as failed:
            self._give_up(failed)
        self._timed_out = False

    def commit(self, tasks: Sequence[Task], *, alone: bool = False) -> None:
        """See `Transactions.commit`.

        Raises:
            OutputRefused, TransactionAborted: nothing was committed.
            ProducerLost: `settle`, read the group's offsets, restore.
            Fenced: another instance has taken over.
        """
        self._refuse_unknown(tasks)
        if self._producer is None or self._timed_out:
            # librdkafka lacks KIP-890: after a transactional timeout a late answer may meet
            # the next transaction of the same producer.
            self._open()
        self._begun = time.monotonic()
        refused: list[str] = []
        ends: dict[tuple[int, str], int] = {}
        try:
            self._send(tasks, ends, refused if alone else None)
        except _Failed as failed:
            self._abort(failed, alone, refused)
        self._outage.answered()
        metrics.TRANSACTIONS.labels(self._stage, "committed").inc()
        metrics.COMMIT_SECONDS.labels(self._stage).observe(time.monotonic() - self._begun)
        for task in tasks:
            task.committed({name: end for (p, name), end in ends.items() if p == task.partition})

    def _send(
        self,
        tasks: Sequence[Task],
        ends: dict[tuple[int, str], int],
        refused: list[str] | None,
    ) -> None:
        producer = self._producer
        assert producer is not None  # noqa: S101
        self._once(producer.begin_transaction)
        watch = None if refused is None else _noting(refused)
        for task in tasks:
            for output in task.ctx.outputs:
                self._produce(producer, output, watch)
            self._produce_changelog(producer, task, ends, refused)
        positions = [
            TopicPartition(self._prefix + topic, task.partition, offset)
            for task in tasks
            for topic, offset in task.positions.items()
        ]
        group = self._group()
        self._resume(lambda: producer.send_offsets_to_transaction(positions, group, _CALL_SECONDS))
        self._resume(lambda: producer.commit_transaction(_CALL_SECONDS))

    def _produce_changelog(
        self,
        producer: Producer,
        task: Task,
        ends: dict[tuple[int, str], int],
        refused: list[str] | None,
    ) -> None:
        for name, topic, records in task.changelog():
            last = len(records) - 1
            note = _noting(refused if refused is not None else [], ends, (task.partition, name))
            for i, (key, value, timestamp) in enumerate(records):
                watch = note if i == last or refused is not None else None
                output = topic, key, value, task.partition, (), timestamp
                self._produce(producer, output, watch)
            metrics.STORE_WRITES.labels(self._stage).inc(len(records))

    def _produce(
        self, producer: Producer, output: Output, watch: Callable[[Any, Message], None] | None
    ) -> None:
        topic, key, value, partition, headers, timestamp = output
        while True:
            try:
                return producer.produce(
                    self._prefix + topic, value, key, partition, watch,
                    timestamp=timestamp or 0, headers=list(headers),
                )  # fmt: skip
            except BufferError:
                producer.poll(0.05)
            except KafkaException as error:
                raise _Failed(classify(error.args[0]), error.args[0]) from error

    def _refuse_unknown(self, tasks: Sequence[Task]) -> None:
        # Asked before, since librdkafka holds a record of an unknown topic for 30 seconds.
        wanted = {(output[0], output[3]) for task in tasks for output in task.ctx.outputs}
        for topic, partition in wanted:
            if not self._exists(topic, partition):
                raise OutputRefused(f"{topic}-{partition}: UNKNOWN_TOPIC_OR_PART")

    def _abort(self, failed: _Failed, alone: bool, refused: list[str]) -> None:
        metrics.TRANSACTIONS.labels(self._stage, "aborted").inc()
        if failed.verdict not in {Verdict.ABORT, Verdict.REFUSE}:
            self._give_up(failed)
        producer = self._producer
        assert producer is not None  # noqa: S101
        try:
            self._resume(lambda: producer.abort_transaction(_CALL_SECONDS))
        except _Failed as again:
            self._give_up(again)
        if failed.verdict is Verdict.REFUSE and (failed.proven or refused or not alone):
            raise OutputRefused("; ".join(refused) or str(failed))
        log.warning("transaction aborted", error=str(failed))
        raise TransactionAborted(str(failed))

    def _give_up(self, failed: _Failed) -> None:
        # A coordinator that was away for longer than a transaction may last aborts it and
        # raises the epoch: then nobody else is there, and only this producer is of no use.
        outlived = time.monotonic() - self._begun > SESSION_TIMEOUT_MS / 1000
        if failed.verdict is Verdict.FENCED and not (outlived or self._timed_out):
            raise Fenced(
                f"another process runs as this instance of {self._stage} ({failed}): "
                "give each its own --instance"
            )
        self._producer = None
        log.warning("producer is replaced", error=str(failed))
        raise ProducerLost(str(failed))

    def _resume(self, call: Callable[[], object]) -> None:
        """Repeat a call until its outcome is known."""
        while True:
            try:
                return self._once(call)
            except _Failed as failed:
                if failed.verdict is not Verdict.RETRY:
                    raise
                self._timed_out = True
                self._outage.failed(failed)
                if self._stopping():
                    raise Stopped from failed

    def _once(self, call: Callable[[], object]) -> None:
        try:
            call()
        except KafkaException as error:
            raise _Failed(classify(error.args[0]), error.args[0]) from error


def _noting(
    refused: list[str],
    ends: dict[tuple[int, str], int] | None = None,
    store: tuple[int, str] = (0, ""),
) -> Callable[[KafkaError | None, Message], None]:
    """A delivery callback that notes refusals and, for a changelog, the offset behind."""

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() in REFUSED:
            refused.append(f"{message.topic()}-{message.partition()}: {error.name()}")
        elif error is None and ends is not None:
            ends[store] = (message.offset() or 0) + 1

    return delivered

"""Sends a record that a worker cannot trust to the dead letters."""

from __future__ import annotations

import structlog

from streams import dead_letter
from streams.errors import PoisonRecord
from streams.process.wall_clock import wall_ms
from streams.serde.ids import partition_for
from streams.worker import metrics
from streams.worker.transport.contract import Incoming
from streams.worker.transport.retrying_sender import Letter, RetryingSender

log = structlog.get_logger(__name__)


def refuse(record: Incoming, error: PoisonRecord, partitions: int, sender: RetryingSender) -> None:
    """Log and send to `dlq`, where the same record read twice has the same id."""
    metrics.REFUSED.labels(error.reason).inc()
    log.error(
        "record refused",
        reason=error.reason,
        detail=error.detail,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
    )
    letter = dead_letter.of_record(
        "worker",
        record.topic,
        record.partition,
        record.offset,
        None,
        record.key,
        record.value,
        reason=error.reason,
        detail=error.detail,
        at=wall_ms(),
    )
    # Trust no tenant in such a record: file its letter with those that have none.
    partition = partition_for("", partitions)
    _, shorter = dead_letter.encoded(dead_letter.shortened(letter))
    key, value = dead_letter.encoded(letter)
    sent = Letter(dead_letter.TOPIC, key, value, partition, letter.id, shorter)
    sender.post(sent, lambda: float("inf"))

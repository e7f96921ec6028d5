"""Sends a record that a worker cannot trust to the dead letters."""

from __future__ import annotations

import structlog

from streams.errors import PoisonRecord
from streams.process.wall_clock import wall_ms
from streams.serde.codec import DEAD_LETTER
from streams.serde.ids import partition_for
from streams.serde.records import DeadLetter
from streams.worker import metrics
from streams.worker.transport.contract import Incoming
from streams.worker.transport.retrying_sender import Letter, RetryingSender

log = structlog.get_logger(__name__)

_KEPT_BYTES = {"key": 16 * 1024, "value": 256 * 1024}
"""Of the record: the whole might be too large for the topic of the dead letters, and what no
broker takes would be sent for ever."""


def refuse(record: Incoming, error: PoisonRecord, partitions: int, sender: RetryingSender) -> None:
    """Log and send to `dlq`, where the same record read twice has the same id."""
    metrics.REFUSED.labels(error.reason).inc()
    log.error(
        "record refused", reason=error.reason, detail=error.detail,
        topic=record.topic, partition=record.partition, offset=record.offset,
    )  # fmt: skip
    id_ = f"worker:{record.topic}:{record.partition}:{record.offset}"
    value = DEAD_LETTER.encode(_letter(id_, record, error))
    # Trust no tenant in such a record: file its letter with those that have none.
    letter = Letter("dlq", id_.encode(), value, partition_for("", partitions), id_)
    sender.post(letter, lambda: float("inf"))


def _letter(id_: str, record: Incoming, error: PoisonRecord) -> DeadLetter:
    key = record.key and record.key[: _KEPT_BYTES["key"]]
    value = record.value and record.value[: _KEPT_BYTES["value"]]
    return DeadLetter(
        id=id_,
        kind="record",
        tenant_id="",
        reason=error.reason,
        detail=error.detail,
        stage="worker",
        at=wall_ms(),
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        key=key,
        value=value,
        cut=(key, value) != (record.key, record.value),
    )

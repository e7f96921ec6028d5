"""How records become rows: one projection for each topic that the operator follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from streams.errors import DecodeError
from streams.runtime.processor import Record
from streams.serde import keys
from streams.serde.codec import (
    DEAD_LETTER,
    DUPLICATE,
    HELD,
    JOB,
    LEDGER_ENTRY,
    PROGRESS,
    QUARANTINED,
    REJECTION,
    TENANT,
)

Row = tuple[Any, ...]
RowKey = tuple[str, Row]
"""Table and primary key of a row."""

_INTEGERS = ("incarnation", "part")


@dataclass(frozen=True, slots=True)
class Projection:
    """A topic's table; `columns` begin with its primary key of `key_columns` columns.

    `split` takes a record's key apart into these.
    """

    table: str
    columns: tuple[str, ...]
    key_columns: int
    row: Callable[[Record], Row]
    split: Callable[[bytes], list[str]] = keys.split

    @property
    def upsert(self) -> str:
        names, marks = ", ".join(self.columns), ", ".join("?" * len(self.columns))
        return f"INSERT OR REPLACE INTO {self.table} ({names}) VALUES ({marks})"  # noqa: S608  constants

    @property
    def delete(self) -> str:
        wanted = " AND ".join(f"{name} = ?" for name in self.columns[: self.key_columns])
        return f"DELETE FROM {self.table} WHERE {wanted}"  # noqa: S608

    def key(self, record: Record) -> Row:
        """Primary key of a deleted row: the parts of the record's key.

        Raises:
            DecodeError: the key has other parts.
        """
        try:
            state = self.split(record.key or b"")
        except UnicodeDecodeError as error:
            raise DecodeError(f"{record.topic}: the key is not UTF-8") from error
        if len(state) != self.key_columns:
            raise DecodeError(f"{record.topic}: a key of {len(state)} parts")
        named = zip(self.columns, state, strict=False)
        return tuple(_integer(p) if name in _INTEGERS else p for name, p in named)


@dataclass(frozen=True, slots=True)
class Changes:
    """What a batch does to one table, the last change of each row alone."""

    projection: Projection
    rows: dict[Row, Row | None]

    def upserts(self) -> Iterable[Row]:
        return [row for row in self.rows.values() if row is not None]

    def deletions(self) -> Iterable[Row]:
        return [key for key, row in self.rows.items() if row is None]


def project(record: Record, batch: dict[str, Changes]) -> None:
    """Add one record to a batch, by table; a record without a value deletes its row.

    Raises:
        DecodeError: the record is not what its topic carries; the batch is unchanged.
    """
    projection = PROJECTIONS[record.topic]
    if record.value is None:
        key, row = projection.key(record), None
    else:
        row = projection.row(record)
        key = row[: projection.key_columns]
    changes = batch.setdefault(projection.table, Changes(projection, {}))
    changes.rows[key] = row


def _job(record: Record) -> Row:
    job = JOB.read(record.value)
    return (job["job_id"], job["tenant_id"], job["type"], job["status"], job["pool"], job["scope"],
            job["replay_of"], record.partition, job["created_at"], job["ready_at"],
            record.value)  # fmt: skip


def _held(record: Record) -> Row:
    held = HELD.decode(record.value)
    key = held.partition, held.pool, held.type, held.tenant_id or ""
    return *key, "/".join(map(str, key)), held.since, record.value


def _progress(record: Record) -> Row:
    said = PROGRESS.decode(record.value)
    return said.job_id, said.tenant_id, said.at, _json(record, said.value.encode())


def _step(record: Record) -> Row:
    key = PROJECTIONS[record.topic].key(record)
    # Steps of one transaction share their time; their offsets keep the order.
    return *key, record.offset, _json(record, record.value or b"")


def _effect(record: Record) -> Row:
    entry = LEDGER_ENTRY.decode(record.value)
    return entry.tenant_id, entry.scope, entry.action, entry.first_claimed_at, record.value


def _dead_letter(record: Record) -> Row:
    letter = DEAD_LETTER.decode(record.value)
    # In text order, records of one partition stand in the order of their offsets.
    place = f"{letter.stage}:{letter.topic}:{letter.partition or 0:010}:{letter.offset or 0:019}"
    return (letter.id, letter.tenant_id, letter.kind, letter.stage, letter.reason, letter.topic,
            letter.replayed_at is not None, place, record.partition, letter.at,
            record.value)  # fmt: skip


def _tenant(record: Record) -> Row:
    setting = TENANT.decode(record.value)
    return setting.tenant_id, setting.kind, setting.id, record.value


def _quarantined(record: Record) -> Row:
    kept = QUARANTINED.decode(record.value)
    status = "waiting" if kept.released_at is None else "released"
    return (kept.tenant_id, kept.source, kept.payload_hash.hex(), kept.event_id, status,
            kept.received_at, record.value)  # fmt: skip


def _rejection(record: Record) -> Row:
    counted = REJECTION.decode(record.value)
    return counted.id, counted.tenant_id, counted.last_at, record.value


def _duplicate(record: Record) -> Row:
    counted = DUPLICATE.decode(record.value)
    return *_hex(record.key or b""), counted.tenant_id, counted.last_at, record.value


def _hex(key: bytes) -> list[str]:
    return [key.hex()]


def _json(record: Record, text: bytes) -> str:
    try:
        orjson.loads(text)
        return text.decode()
    except ValueError as error:
        raise DecodeError(f"{record.topic}: the value is not JSON: {error}") from error


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise DecodeError(f"{text!r} in a key is no number") from error


PROJECTIONS: dict[str, Projection] = {
    "jobs": Projection(
        "jobs",
        (
            "job_id",
            "tenant_id",
            "type",
            "status",
            "pool",
            "scope",
            "replay_of",
            "part",
            "created_at",
            "ready_at",
            "record",
        ),
        1,
        _job,
    ),
    "jobs.held": Projection(
        "held", ("part", "pool", "type", "tenant_id", "id", "since", "record"), 4, _held
    ),
    "jobs.progress": Projection("progress", ("job_id", "tenant_id", "at", "value"), 1, _progress),
    "dispatcher.checkpoints.changelog": Projection(
        "steps", ("job_id", "incarnation", "name", "position", "value"), 3, _step
    ),
    "ledger": Projection(
        "effects", ("tenant_id", "scope", "action", "first_claimed_at", "record"), 3, _effect
    ),
    "dlq": Projection(
        "dead_letters",
        (
            "id",
            "tenant_id",
            "kind",
            "stage",
            "reason",
            "topic",
            "replayed",
            "place",
            "part",
            "at",
            "record",
        ),
        1,
        _dead_letter,
    ),
    "quarantine": Projection(
        "quarantine",
        ("tenant_id", "source", "payload_hash", "id", "status", "at", "record"),
        3,
        _quarantined,
    ),
    "rejections": Projection("rejections", ("id", "tenant_id", "at", "record"), 1, _rejection),
    "duplicates": Projection(
        "duplicates", ("fingerprint", "tenant_id", "at", "record"), 1, _duplicate, _hex
    ),
    "tenants": Projection("tenants", ("tenant_id", "kind", "id", "record"), 3, _tenant),
}

"""Avro in Confluent's wire format: 0x00, a 4-byte big-endian schema id, then the datum.

Each record has one codec. A record written under an earlier schema version is resolved to the
current one while reading (Avro 1.11, "Schema Resolution").
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache, cached_property
from io import BytesIO
from typing import Any, Generic, TypeVar

from fastavro import schemaless_reader

from streams.errors import DecodeError
from streams.serde import (
    bulk_records,
    conversion,
    delivery_records,
    records,
    replay_records,
    schemas,
    writing,
)
from streams.serde.reading import REFUSALS, Read, reader

T = TypeVar("T")
_HEADER = struct.Struct(">bI")
HEADER_SIZE = _HEADER.size


class Codec(Generic[T]):
    """Encodes and decodes one record type; stateless after its first use, safe in threads."""

    def __init__(self, name: str, cls: type[T]) -> None:
        self.name = name
        self.cls = cls

    @cached_property
    def schema(self) -> schemas.Schema:
        return schemas.current(self.name)

    @cached_property
    def _build(self) -> conversion.Convert:
        return conversion.builder(self.cls)

    @cached_property
    def _write(self) -> writing.Write:
        return writing.writer(self.schema.parsed)

    @cached_property
    def _frame(self) -> bytes:
        return _HEADER.pack(0, self.schema.id)

    @cached_property
    def _reader(self) -> Read:
        return reader(self.schema.parsed)

    @cached_property
    def _named(self) -> bool:
        """Whether fastavro has to name the records of unions; it reads faster if it need not."""
        return conversion.has_variants(self.cls)

    def encode(self, value: T) -> bytes:
        """Framed bytes of a record, under the current version of its schema."""
        return self._frame + self._write(value)

    def decode(self, data: bytes | None) -> T:
        """The record in framed bytes.

        Raises:
            DecodeError, MemoryError: as `read`.
        """
        built: T = self._build(self.read(data))
        return built

    def read(self, data: bytes | None) -> dict[str, Any]:
        """The fields of a record in framed bytes, nested ones as fastavro returns them.

        For callers that need only a few fields: it costs half of `decode`.

        Raises:
            DecodeError: no value, no frame, an unknown schema id, another schema's id, a broken
                datum.
            MemoryError: memory ran out, which is not the record's fault.
        """
        return self._read_by(self._reader, data)

    def reading(self, *names: str) -> Callable[[bytes | None], dict[str, Any]]:
        """A function as `read`, whose records may lack all fields but these."""
        made = cache(lambda: reader(self.schema.parsed, names))  # at first use, as everything here
        return lambda data: self._read_by(made(), data)

    def _read_by(self, read: Read, data: bytes | None) -> dict[str, Any]:
        if data is not None and data.startswith(self._frame):
            fields: dict[str, Any]
            try:
                fields, end = read(data, HEADER_SIZE)
            except REFUSALS:
                return self._read_slowly(data)
            if end == len(data):
                return fields
        return self._read_slowly(data)

    def _read_slowly(self, data: bytes | None) -> dict[str, Any]:
        """Read a record as fastavro does, also one of an earlier version, or none of ours."""
        if data is None:
            raise DecodeError(f"{self.name}: a record without a value")
        writer = self._writer_schema(data)
        source = BytesIO(data)
        source.seek(HEADER_SIZE)
        reader = None if writer.id == self.schema.id else self.schema.parsed
        try:
            datum: Any = schemaless_reader(
                source,
                writer.parsed,
                reader,
                return_record_name=self._named,
                return_record_name_override=self._named,
            )
        except MemoryError:
            raise
        except Exception as error:  # the type depends on which bytes are broken
            raise DecodeError(f"{self.name}: {type(error).__name__}: {error}") from error
        if source.read(1):
            raise DecodeError(f"{self.name}: bytes left over after the record")
        fields: dict[str, Any] = datum
        return fields

    def _writer_schema(self, data: bytes) -> schemas.Schema:
        if len(data) < HEADER_SIZE:
            raise DecodeError(f"{self.name}: {len(data)} bytes are no framed record")
        magic, id_ = _HEADER.unpack_from(data)
        writer = schemas.by_id().get(id_)
        if magic != 0 or writer is None:
            raise DecodeError(f"{self.name}: magic byte {magic}, schema id {id_}: not known here")
        if writer.name != self.name:
            raise DecodeError(f"expected {self.name}, found {writer.name}")
        return writer


ENVELOPE = Codec("envelope", records.Envelope)
JOB = Codec("job", records.Job)
COMMAND = Codec("command", records.Command)
LEDGER_ENTRY = Codec("ledger_entry", records.LedgerEntry)
STEP_RESULT = Codec("step_result", records.StepResult)
SCHEDULE = Codec("schedule", records.Schedule)
DEAD_LETTER = Codec("dead_letter", records.DeadLetter)
HELD = Codec("held", records.Held)
BACKLOG = Codec("backlog", records.Backlog)
PROGRESS = Codec("progress", records.Progress)
JOB_TYPES = Codec("job_types", records.JobTypes)
LIVE = Codec("live", records.LiveOutput)
TENANT = Codec("tenant", records.TenantRecord)
QUARANTINED = Codec("quarantine", records.Quarantined)
REJECTION = Codec("rejection", records.Rejection)
RATE_REPORT = Codec("rate_report", records.RateReport)
DUPLICATE = Codec("duplicate", records.Duplicate)
DELIVERY = Codec("delivery", delivery_records.Delivery)
OUTGOING = Codec("outgoing", delivery_records.Outgoing)
DELIVERY_ATTEMPT = Codec("delivery_attempt", delivery_records.DeliveryAttempt)
DELIVERY_COMMAND = Codec("delivery_command", delivery_records.DeliveryCommand)
ENDPOINT_STATE = Codec("endpoint_state", delivery_records.EndpointState)
APPROVAL = Codec("approval", records.Approval)
SCHEDULE_ROW = Codec("schedule_row", records.ScheduleRow)
WORKFLOW = Codec("workflow", records.Workflow)
LIMIT_CLAIM = Codec("limit_claim", records.LimitClaim)
LIMIT_GRANT = Codec("limit_grant", records.LimitGrant)
AUDIT_ENTRY = Codec("audit", records.AuditEntry)
REPLAY = Codec("replay", replay_records.ReplayRecord)
BULK = Codec("bulk", bulk_records.BulkRecord)

"""Avro in Confluent's wire format: 0x00, a 4-byte big-endian schema id, then the datum.

One codec for each record; a record written under an earlier schema version is resolved to
the current one while reading (Avro 1.11, "Schema Resolution").
"""

from __future__ import annotations

import struct
import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cached_property
from io import BytesIO
from operator import attrgetter
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from fastavro import schemaless_reader, schemaless_writer

from streams.errors import DecodeError
from streams.serde import records, schemas

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
    def _build(self) -> Callable[[Any], Any]:
        return _builder(self.cls)

    @cached_property
    def _flatten(self) -> Callable[[Any], dict[str, Any]]:
        return _record_flattener(self.cls)

    def encode(self, value: T) -> bytes:
        """Framed bytes of a record."""
        out = BytesIO()
        out.write(_HEADER.pack(0, self.schema.id))
        schemaless_writer(out, self.schema.parsed, self._flatten(value))
        return out.getvalue()

    def decode(self, data: bytes | None) -> T:
        """The record in framed bytes.

        Raises:
            DecodeError: no value, no frame, an unknown or another schema's id, a broken datum.
            MemoryError: there is too little, which is not the record's fault.
        """
        if data is None:
            raise DecodeError(f"{self.name}: a record without a value")
        writer = self._writer_schema(data)
        source = BytesIO(data)
        source.seek(HEADER_SIZE)
        reader = None if writer.id == self.schema.id else self.schema.parsed
        try:
            datum = schemaless_reader(
                source, writer.parsed, reader,
                return_record_name=True, return_record_name_override=True,
            )  # fmt: skip
        except MemoryError:
            raise
        except Exception as error:  # fastavro raises what the broken bytes happen to hit
            raise DecodeError(f"{self.name}: {type(error).__name__}: {error}") from error
        if source.read(1):
            raise DecodeError(f"{self.name}: bytes left over after the record")
        built: T = self._build(datum)
        return built

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


def _flattener(hint: Any) -> Callable[[Any], Any] | None:
    """A function from the type that a field's hint names to fastavro's datum; None: as it is."""
    if is_dataclass(hint):
        return _record_flattener(hint)
    options = [option for option in get_args(hint) if option is not types.NoneType]
    if get_origin(hint) is types.UnionType and len(options) > 1 and is_dataclass(options[0]):
        union = {o: (f"tidegate.{o.__name__}", _record_flattener(o)) for o in options}
        return lambda value: (union[type(value)][0], union[type(value)][1](value))
    if get_origin(hint) is types.UnionType and is_dataclass(options[0]):
        flatten = _record_flattener(options[0])
        return lambda value: None if value is None else flatten(value)
    if get_origin(hint) is tuple:
        item = _flattener(get_args(hint)[0])
        return list if item is None else lambda values: list(map(item, values))
    return None


def _record_flattener(cls: Any) -> Callable[[Any], dict[str, Any]]:
    hints, names = get_type_hints(cls), [field.name for field in fields(cls)]
    nested = [(name, f) for name in names if (f := _flattener(hints[name])) is not None]
    # All fields in one call: looking at each cost as much as writing it.
    values = attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)

    def flatten(value: Any) -> dict[str, Any]:
        datum = dict(zip(names, values(value), strict=True))
        for name, flat in nested:
            datum[name] = flat(datum[name])
        return datum

    return flatten


def _builder(hint: Any) -> Callable[[Any], Any]:
    """A function from fastavro's datum to the type that a field's hint names."""
    if is_dataclass(hint):
        return _record_builder(hint)
    options = [option for option in get_args(hint) if option is not types.NoneType]
    if get_origin(hint) is types.UnionType and len(options) > 1 and is_dataclass(options[0]):
        union = {f"tidegate.{o.__name__}": _builder(o) for o in options}
        return lambda datum: union[datum[0]](datum[1])
    if get_origin(hint) is types.UnionType and is_dataclass(options[0]):
        build = _builder(options[0])
        return lambda datum: None if datum is None else build(datum)
    if get_origin(hint) is tuple:
        item = _builder(get_args(hint)[0])
        return lambda datum: tuple(map(item, datum))
    return lambda datum: datum


def _record_builder(cls: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(cls)
    nested = {
        f.name: _builder(hints[f.name]) for f in fields(cls) if _needs_building(hints[f.name])
    }

    def build(datum: dict[str, Any]) -> Any:
        for name, builder in nested.items():
            datum[name] = builder(datum[name])
        return cls(**datum)

    return build


def _needs_building(hint: Any) -> bool:
    return is_dataclass(hint) or get_origin(hint) is tuple or any(map(is_dataclass, get_args(hint)))


ENVELOPE = Codec("envelope", records.Envelope)
JOB = Codec("job", records.Job)
COMMAND = Codec("command", records.Command)
LEASE = Codec("lease", records.Lease)
REPLY = Codec("reply", records.Reply)
LEDGER_ENTRY = Codec("ledger_entry", records.LedgerEntry)
SCHEDULE = Codec("schedule", records.Schedule)
DEAD_LETTER = Codec("dead_letter", records.DeadLetter)
HELD = Codec("held", records.Held)
PROGRESS = Codec("progress", records.Progress)
TENANT = Codec("tenant", records.TenantRecord)
QUARANTINED = Codec("quarantine", records.Quarantined)
REJECTION = Codec("rejection", records.Rejection)
RATE_REPORT = Codec("rate_report", records.RateReport)
DUPLICATE = Codec("duplicate", records.Duplicate)

"""Schemas: ids hold, versions are compatible both ways, values survive the wire."""

from __future__ import annotations

import dataclasses
import io
import json
import types
from pathlib import Path
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import pytest
from fastavro import schemaless_reader, schemaless_writer
from fastavro.read import SchemaResolutionError
from fastavro.schema import parse_schema
from fastavro.utils import gen_data, generate_one
from support.schema_versions import LATER, another_version

from streams.errors import DecodeError
from streams.serde import bulk_records, codec, records, replay_records, schemas
from streams.shipped_files import resource

CODECS: list[codec.Codec[Any]] = [v for v in vars(codec).values() if isinstance(v, codec.Codec)]
FIRST = ("envelope", 1)


@pytest.mark.parametrize("c", CODECS, ids=lambda c: c.name)
def test_every_generated_value_survives_encoding(c: codec.Codec[Any]) -> None:
    value = c._build(_named(generate_one(c.schema.parsed), c))
    assert c.decode(c.encode(value)) == value


@pytest.mark.parametrize("c", CODECS, ids=lambda c: c.name)
@pytest.mark.parametrize("empty", [False, True])
def test_a_record_with_all_or_none_of_its_optional_fields_survives(
    c: codec.Codec[Any], empty: bool
) -> None:
    value = _filled(c.cls, empty)
    assert c.decode(c.encode(value)) == value


@pytest.mark.parametrize("number", [0, 1, -1, 63, 64, 8191, 8192, -8192, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("text", ["", "é" * 4095, "x" * 8192], ids=len)
def test_fastavro_writes_the_same_bytes(number: int, text: str) -> None:
    """Of numbers and lengths on both sides of each size that they have on the wire."""
    job = dataclasses.replace(_filled(records.Job, empty=False), epoch=number, input=text)
    data, out = codec.JOB.encode(job), io.BytesIO(bytes(codec.HEADER_SIZE))
    out.seek(codec.HEADER_SIZE)
    schemaless_writer(out, codec.JOB.schema.parsed, codec.JOB.read(data))
    assert data[codec.HEADER_SIZE :] == out.getvalue()[codec.HEADER_SIZE :]
    assert codec.JOB.decode(data) == job


def test_a_value_that_its_schema_cannot_hold_is_not_written() -> None:
    job = _filled(records.Job, empty=False)
    with pytest.raises(OverflowError):
        codec.JOB.encode(dataclasses.replace(job, epoch=2**63))
    envelope = _filled(records.Envelope, empty=False)
    with pytest.raises(ValueError, match="15 bytes instead of 16"):
        codec.ENVELOPE.encode(dataclasses.replace(envelope, fingerprint=bytes(15)))


@pytest.mark.parametrize("c", CODECS, ids=lambda c: c.name)
def test_the_dataclass_has_the_fields_of_the_schema_in_order(c: codec.Codec[Any]) -> None:
    source = json.loads((resource("schemas") / f"{c.name}.avsc").read_text())
    assert [f.name for f in dataclasses.fields(c.cls)] == [f["name"] for f in source["fields"]]


@pytest.mark.parametrize("old", schemas.by_id().values(), ids=lambda s: f"{s.name}.{s.version}")
def test_versions_are_compatible_backward_and_forward(old: schemas.Schema) -> None:
    _check_both_ways(old)


def test_a_later_version_is_compatible_if_its_new_field_has_a_default(tmp_path: Path) -> None:
    with another_version("envelope", tmp_path / "with", LATER):
        _check_both_ways(*(s for s in schemas.by_id().values() if (s.name, s.version) == FIRST))
    with another_version("envelope", tmp_path / "without", {"name": "later", "type": "string"}):
        (first,) = (s for s in schemas.by_id().values() if (s.name, s.version) == FIRST)
        with pytest.raises(SchemaResolutionError, match="later"):
            _check_both_ways(first)


def test_the_fingerprint_is_the_first_field_at_a_fixed_place() -> None:
    envelope = codec.ENVELOPE._build(generate_one(codec.ENVELOPE.schema.parsed))
    envelope = dataclasses.replace(envelope, fingerprint=b"0123456789abcdef")
    assert codec.ENVELOPE.encode(envelope)[5:21] == b"0123456789abcdef"


def test_every_command_body_is_told_apart() -> None:
    body = records.Cancel("asked", None)
    command = records.Command("cmd_1", "acme", "job_1", 0, 1, body)
    assert codec.COMMAND.decode(codec.COMMAND.encode(command)).body == body


def test_a_command_that_workers_wrote_in_an_earlier_release_is_read() -> None:
    named: dict[str, Any] = {}
    parsed: Any = parse_schema(json.loads(codec.COMMAND.schema.text), named)
    (bodies,) = (each["type"] for each in parsed["fields"] if each["name"] == "body")
    for body in bodies:
        out, written = io.BytesIO(), (body["name"], gen_data(body, named))
        schemaless_writer(out, parsed, generate_one(parsed) | {"body": written})
        command = codec.COMMAND.decode(codec.COMMAND._frame + out.getvalue())
        assert body["name"] == f"tidegate.{type(command.body).__name__}"
        if records.command_kinds.KIND_OF[type(command.body)].sender != "worker":
            assert codec.COMMAND.decode(codec.COMMAND.encode(command)) == command


@pytest.mark.parametrize(
    "data", [None, b"", b"\0\0\0", b"\1\0\0\0\1x", b"\0\0\0\3\xe7x", b"{}" * 9], ids=repr
)
def test_bytes_that_are_no_record_raise_decode_error(data: bytes | None) -> None:
    with pytest.raises(DecodeError):
        codec.ENVELOPE.decode(data)


def test_a_cut_or_prolonged_record_raises_decode_error() -> None:
    data = codec.COMMAND.encode(
        records.Command("cmd_1", "acme", "job_1", 0, 1, records.Cancel("asked", None))
    )
    for broken in (data[:-1], data + b"x", codec.PROGRESS.encode(_progress())):
        with pytest.raises(DecodeError):
            codec.COMMAND.decode(broken)


def _check_both_ways(old: schemas.Schema) -> None:
    """A body that only the newer version has is out of the older one's reach."""
    new = schemas.current(old.name)
    for writer, reader in ((old.parsed, new.parsed), (_without_new_bodies(new, old), old.parsed)):
        data = io.BytesIO()
        schemaless_writer(data, writer, generate_one(writer))
        data.seek(0)
        schemaless_reader(data, writer, reader)


def _without_new_bodies(new: schemas.Schema, old: schemas.Schema) -> Any:
    """The newer schema, of its commands those that the older version knows."""
    sources = [json.loads(schema.text) for schema in (new, old)]
    newer, older = ({f["name"]: f for f in source["fields"]} for source in sources)
    if new.name == "command":
        known = {body["name"] for body in older["body"]["type"]}
        newer["body"]["type"] = [b for b in newer["body"]["type"] if b["name"] in known]
    return parse_schema(sources[0])


def _progress() -> records.Progress:
    return records.Progress("job_1", "acme", "run_1", 1, "{}")


def _named(datum: Any, c: codec.Codec[Any]) -> Any:
    bodies: dict[str, Any] = {
        "command": records.Wake(1, 1, 7),
        "replay": replay_records.ReplayPaused(True),
        "bulk": bulk_records.BulkPaused(True),
    }
    if c.name in bodies:
        body = bodies[c.name]
        datum["body"] = (f"tidegate.{type(body).__name__}", dataclasses.asdict(body))
    return datum


def test_too_little_memory_is_not_the_records_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `DecodeError` would send a good record to the dead letters."""

    def starved(*_: object, **__: object) -> None:
        raise MemoryError

    value = codec.HELD.encode(records.Held(0, "p", "t", None, "no_worker", 1, 1, ""))
    monkeypatch.setattr(codec, "schemaless_reader", starved)
    with pytest.raises(MemoryError):
        codec.HELD.decode(value[:-1])
    monkeypatch.setattr(codec.HELD, "_reader", starved)
    with pytest.raises(MemoryError):
        codec.HELD.decode(value)


_SIZED = {"fingerprint": 16, "payload_hash": 32}
_SAMPLES = {str: "text", int: 7, float: 0.5, bytes: b"bytes", bool: True}


def _filled(hint: Any, empty: bool) -> Any:
    """A value of a type, with every optional field of its records left out or given."""
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        sized = {name: bytes(size) for name, size in _SIZED.items() if name in hints}
        fields = {name: _filled(h, empty) for name, h in hints.items()} | sized
        return cast("Any", hint)(**fields)
    origin, options = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, Union):
        return None if empty and type(None) in options else _filled(options[0], empty)
    if origin is tuple:
        return () if empty else (_filled(options[0], empty),)
    if origin is dict:
        return {} if empty else {"key": _filled(options[1], empty)}
    return options[0] if origin is Literal else _SAMPLES[hint]

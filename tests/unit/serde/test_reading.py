"""Our readers return what fastavro returns, and leave to it all that they do not accept."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from fastavro import schemaless_writer
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.odd_records import broken, framed

from streams.errors import DecodeError
from streams.serde import codec
from streams.serde.reading import REFUSALS, reader
from streams.serde.records import Command
from streams.serde.records.commands import kind_of

CODECS: list[codec.Codec[Any]] = [v for v in vars(codec).values() if isinstance(v, codec.Codec)]
RECORDS = {c.name: framed(c.name) | broken(c.name) for c in CODECS}


@pytest.mark.parametrize("c", CODECS, ids=lambda c: c.name)
@given(data=st.data())
@settings(deadline=None)
def test_a_record_is_read_as_fastavro_reads_it(c: codec.Codec[Any], data: st.DataObject) -> None:
    """Also one that is cut, or changed in one place."""
    record = data.draw(RECORDS[c.name])
    slowly = outcome(c._read_slowly, record)
    assert outcome(c.read, record) == slowly
    names = [field["name"] for field in c.schema.parsed["fields"]][1::2]
    some = outcome(c.reading(*names), record)
    if isinstance(slowly, str):
        assert some == slowly
    else:
        assert {name: some[name] for name in names} == {name: slowly[name] for name in names}


def outcome(read: Any, record: bytes | None) -> Any:
    """The fields, each by its text because NaN is unlike itself, or that it is no record."""
    try:
        return {name: repr(value) for name, value in read(record).items()}
    except DecodeError as error:
        return error.reason


@pytest.mark.parametrize("c", CODECS, ids=lambda c: c.name)
@given(data=st.data())
@settings(deadline=None, max_examples=10)
def test_what_our_writer_makes_is_read_without_fastavro(
    c: codec.Codec[Any], data: st.DataObject
) -> None:
    value = c.decode(data.draw(framed(c.name)))
    assume(not (isinstance(value, Command) and kind_of(value).sender == "worker"))  # not written
    record = c.encode(value)
    fields, end = reader(c.schema.parsed)(record, codec.HEADER_SIZE)
    assert (repr(c._build(fields)), end) == (repr(value), len(record))


SCHEMA = {
    "type": "record",
    "name": "Odd",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "items", "type": {"type": "array", "items": "string"}},
        {"name": "by_key", "type": {"type": "map", "values": ["null", "double"]}},
        {"name": "yes", "type": "boolean"},
    ],
}
read = reader(SCHEMA)


def test_a_record_of_all_kinds_of_fields_is_read() -> None:
    fields = {"n": -(2**63), "items": ["", "é" * 70], "by_key": {"a": None, "b": 0.5}, "yes": True}
    out = BytesIO()
    schemaless_writer(out, SCHEMA, fields)
    assert read(out.getvalue(), 0) == (fields, len(out.getvalue()))


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"\xff" * 9 + b"\1\0\0\2",  # a boolean that is neither
        b"\xff" * 9 + b"\2\0\0\0",  # 65 bits
        b"\xff" * 30,
        b"\0\1\2\0\0\0",  # a block that says its size
        b"\0\2\0\2\0\0\0\0",  # two blocks
        b"\0\2\1\0\0\0",  # a text of a negative length
        b"\0\2\2\xff\0\0\0",  # a text that is not UTF-8
        b"\0\xfe\xff\xff\xff\x0f\0",  # an array of very many items
        b"\0\0\2\2a\4\0\0",  # a branch that its union has not
        b"\0\0\2\2a\2\0\0",  # a double beyond the end
    ],
    ids=repr,
)
def test_other_bytes_are_refused(record: bytes) -> None:
    with pytest.raises(REFUSALS):
        read(record, 0)


def test_a_text_that_is_cut_ends_beyond_the_record() -> None:
    text = reader({"type": "record", "name": "T", "fields": [{"name": "t", "type": "string"}]})
    assert text(b"\x08abc", 0)[1] == 5

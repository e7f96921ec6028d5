"""Records as no producer of ours writes them: strategies for tests of what a stage bears."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any

from fastavro import schemaless_writer
from hypothesis import strategies as st

from streams.serde import schemas
from streams.serde.ids import event_job_id
from streams.serde.keys import tenant_key

BYTES = st.binary(max_size=64)
LONGS = st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 1_750_000_000_000])
INTS = st.sampled_from([0, 1, -1, 3, 2**31 - 1, -(2**31)])
KNOWN_JOB = event_job_id("acme", "zendesk", "known")
ODD = [
    "",
    "a\0b",
    "\n",
    "\ud7ff",
    "\U0010ffff",
    "x" * 300,
    "NaN",
    "{}",
    "[1",
    "9" * 400,
    "[" * 3000,
    "[1e999]",
    '{"at": 1e30}',
    '{"created_at": 1e30, "set_at": 99999999999999999999}',
    '{"url": "http://[::", "events": ["[", "*a*a*a*a*"], "retry": [1e-320]}',
]
APT = ["acme", "zendesk", "ticket.refund", "refund", "default", "webhook", "known", KNOWN_JOB, "w1"]
TEXTS = st.sampled_from(ODD + APT)
"""Some that fit what a test has set up, so that a record gets beyond the first look at it."""
HEADERS = st.lists(
    st.tuples(
        st.sampled_from(
            ["traceparent", "ce_id", "ce_type", "tidegate-replay", "tidegate-letter", ""]
        ),
        st.sampled_from([None, b"", b"\xff\xfe", b"00-ab-cd-01"]),
    ),
    max_size=4,
)
KEYS = st.none() | BYTES
SETTING_KEYS = st.builds(
    tenant_key,
    st.sampled_from(["acme", ""]),
    st.sampled_from(["tenant", "source", "endpoint", "erasure", "data_key", "cause", "other"]),
    st.sampled_from(["", "crm", "callbacks"]),
)
"""Keys on `tenants`, which decide what their values are taken for."""
_SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "float": st.sampled_from([0.0, -1.0, float("inf"), float("nan")]),
    "double": st.sampled_from([0.0, -1.0, 1e308, float("inf"), float("nan")]),
    "bytes": BYTES,
    "string": TEXTS,
}


def framed(name: str, **apt: Any) -> st.SearchStrategy[bytes]:
    """Records that decode under any version of a schema, with odd values but in the fields told."""
    versions = [schema for schema in schemas.by_id().values() if schema.name == name]
    return st.one_of(*(_of_version(schema, apt) for schema in versions))


def broken(name: str) -> st.SearchStrategy[bytes | None]:
    """No value, arbitrary bytes, and records that were cut or changed in one place."""
    whole = framed(name)
    cut = st.builds(lambda value, at: value[: at % (len(value) + 1)], whole, st.integers(0))
    changed = st.builds(_change, whole, st.integers(0), st.integers(0, 255))
    return st.none() | BYTES | cut | changed


def _change(value: bytes, at: int, to: int) -> bytes:
    at %= len(value)
    return value[:at] + bytes([to]) + value[at + 1 :]


def _of_version(schema: schemas.Schema, apt: dict[str, Any]) -> st.SearchStrategy[bytes]:
    def encode(datum: Any) -> bytes:
        out = BytesIO()
        out.write(struct.pack(">bI", 0, schema.id))
        schemaless_writer(out, schema.parsed, {**datum, **apt})
        return out.getvalue()

    return _datum(schema.parsed, {}).map(encode)


def _datum(schema: Any, named: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    if isinstance(schema, list):
        return st.one_of(*(_branch(option, named) for option in schema))
    if isinstance(schema, str):
        return named.get(schema) or _SIMPLE[schema]
    match schema["type"]:
        case "record":
            fields = {f["name"]: _datum(f["type"], named) for f in schema["fields"]}
            named[schema["name"]] = st.fixed_dictionaries(fields)
            return named[schema["name"]]
        case "array":
            return st.lists(_datum(schema["items"], named), max_size=3)
        case "map":
            return st.dictionaries(TEXTS, _datum(schema["values"], named), max_size=3)
        case "enum":
            return st.sampled_from(schema["symbols"])
        case "fixed":
            named[schema["name"]] = st.binary(min_size=schema["size"], max_size=schema["size"])
            return named[schema["name"]]
        case inner:
            return _datum(inner, named)


def _branch(option: Any, named: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    values = _datum(option, named)
    if isinstance(option, dict) and option.get("type") == "record":
        return values.map(lambda datum: (option["name"], datum))
    return values

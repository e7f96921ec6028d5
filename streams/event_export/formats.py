"""Rows as bytes of a file: JSON lines, or Parquet through pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

import orjson

from streams.errors import ConfigError
from streams.event_reader.rows import TIMES
from streams.http.moments import rfc3339, writable
from streams.serde.schemas import current

Row = dict[str, Any]
Encode = Callable[[Sequence[Row]], bytes]

FORMATS = ("parquet", "jsonl")


def encoder(name: str) -> Encode:
    """The function that makes a file of rows.

    Raises:
        ConfigError: there is no such format, or Parquet's library is not installed.
    """
    if name == "jsonl":
        return _jsonl
    if name != "parquet":
        raise ConfigError(f"--format: {name!r} is none of {', '.join(FORMATS)}")
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ConfigError(
            "--format parquet needs pyarrow: pip install 'tidegate[export]', or export jsonl"
        ) from None
    return _parquet


def _jsonl(rows: Sequence[Row]) -> bytes:
    return b"".join(line(row) for row in rows)


def line(row: Row) -> bytes:
    """A row as a line of JSON, its times in RFC 3339."""
    return orjson.dumps(row | _times(row), option=orjson.OPT_APPEND_NEWLINE)


def _times(row: Row) -> Row:
    return {name: rfc3339(row[name]) for name in TIMES}


def _parquet(rows: Sequence[Row]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    text, time = pa.string(), pa.timestamp("ms", tz="UTC")
    kinds = dict.fromkeys(rows[0], text) | dict.fromkeys(TIMES, time)
    kinds |= {"attributes": pa.map_(text, text), "routed": pa.bool_(), "partition": pa.int32()}
    kinds |= {"payload_size": pa.int64(), "offset": pa.int64()}
    written = f"envelope.{current('envelope').version}"
    schema = pa.schema(list(kinds.items()), metadata={"tidegate.schema": written})
    columns = {name: [row[name] for row in rows] for name in kinds}
    for name in TIMES:
        columns[name] = [None if at is None else writable(at) for at in columns[name]]
    columns["attributes"] = [list(each.items()) for each in columns["attributes"]]
    out = BytesIO()
    pq.write_table(pa.table(columns, schema=schema), out, compression="zstd")
    return out.getvalue()

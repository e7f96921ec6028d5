"""What the contenders of bench_fanout keep of events: the rows of `tidegate analytics`.

A row is the number of events in 8 bytes and, if asked for, the HyperLogLog of their subjects with
all of its registers. The module needs fastavro alone, so that every contender can import it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

from fastavro import parse_schema, schemaless_reader

SCHEMA = Path(__file__).parents[2] / "schemas" / "envelope.avsc"
WINDOWS_MS = {"minute": 60_000, "hour": 3_600_000}
"""The hour is the last one, of which `Hours` is told."""
_COUNT = struct.Struct(">Q")
_REGISTERS = 4_096
_EMPTY = bytes(_COUNT.size + _REGISTERS)
_TOLD = "events in rows of hours: "
_FRAME = 5
"""A record of `events` begins with a zero byte and its schema's id."""

Event = dict[str, Any]


def decoder() -> Callable[[bytes], Event]:
    """Reads a record of `events` that was written under the newest schema."""
    schema = parse_schema(json.loads(SCHEMA.read_text()))

    def decode(record: bytes) -> Event:
        found: Any = schemaless_reader(BytesIO(record[_FRAME:]), schema, None)
        return dict(found)

    return decode


def row_key(event: Event) -> str:
    """The tenant, source and type that have a row together."""
    return f"{event['tenant_id']}|{event['source']}|{event['event_type']}"


def counted(row: bytes | None, event: Event, with_subjects: bool) -> bytes:
    """A window's row with one event more."""
    if not with_subjects:
        return _COUNT.pack(_COUNT.unpack_from(row or _EMPTY)[0] + 1)
    changed = bytearray(row or _EMPTY)
    _COUNT.pack_into(changed, 0, _COUNT.unpack_from(changed)[0] + 1)
    if event["subject"] is not None:
        whole = "\0".join((event["tenant_id"], event["source"], event["subject"]))
        number = int.from_bytes(blake2b(whole.encode(), digest_size=8).digest(), "big")
        at = _COUNT.size + (number >> 52)
        changed[at] = max(changed[at], 53 - (number & ((1 << 52) - 1)).bit_length())
    return bytes(changed)


class Hours:
    """The newest row of each hour, as the library's store gave it and took it."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int], bytes] = {}

    def note(self, key: str, at_ms: int, row: bytes) -> None:
        """A row was written for an event of that time."""
        self._rows[key, at_ms // WINDOWS_MS["hour"]] = row

    def tell(self) -> None:
        """Print how many events all of them have, as `told` reads it."""
        print(
            f"{_TOLD}{sum(_COUNT.unpack_from(row)[0] for row in self._rows.values())}", flush=True
        )


def told(output: str) -> int | None:
    """What `Hours.tell` printed; None if it did not."""
    found = [line for line in output.splitlines() if line.startswith(_TOLD)]
    return int(found[-1].removeprefix(_TOLD)) if found else None

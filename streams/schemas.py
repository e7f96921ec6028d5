"""The Avro schemas of the records on Tidegate's topics, for consumers of your own.

A record begins with a zero byte and the id of its schema in four bytes, big-endian (Confluent's
wire format); the datum follows. An id never changes its meaning.
"""

from __future__ import annotations

from typing import Any

from streams.serde import schemas

__all__ = ["schema"]


def schema(wanted: int | str) -> dict[str, Any]:
    """The schema of an id, or the newest of a name (`envelope`), parsed as fastavro needs it.

    Raises:
        ConfigError: this version of Tidegate does not know it.
    """
    found = schemas.current(wanted) if isinstance(wanted, str) else schemas.released(wanted)
    parsed: dict[str, Any] = found.parsed
    return parsed

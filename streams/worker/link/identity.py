"""The identity with which a worker greets the owners of partitions."""

from __future__ import annotations

from dataclasses import dataclass

from streams.serde.records import Handler


@dataclass(frozen=True, slots=True)
class Identity:
    """A worker's identity: `name` is its instance, and `boot` a UUIDv7 of its process."""

    name: str
    boot: str
    pool: str
    handlers: tuple[Handler, ...]

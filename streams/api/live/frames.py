"""One event of a stream, as the reader gets it (HTML, section 9.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from streams.api.rows.json_values import Json, json_bytes

Event = Literal["status", "progress", "step", "token", "effect", "log", "reset", "gap", "end"]

RETRY_MS = 1_000
"""After so long a browser connects again."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record is, so that a position says that it was seen: topics as in `position`."""

    partition: int
    topic: int
    offset: int


@dataclass(frozen=True, slots=True)
class Frame:
    """An event with its data, and what the reader has seen with it.

    Without data nothing is sent: the reader just passes the record. `part` is the number of the
    part of the subject that lives or has ended.
    """

    event: Event
    data: Json | None
    place: Place | None = None
    part: int | None = None


def written(frame: Frame, id_: str, *, first: bool = False) -> bytes:
    """The bytes of a frame; the first one also says how soon to connect again."""
    retry = f"retry: {RETRY_MS}\n" if first else ""
    head = f"id: {id_}\nevent: {frame.event}\n{retry}data: "
    return head.encode() + json_bytes(frame.data) + b"\n\n"


def moved(id_: str) -> bytes:
    """A block without an event: a browser keeps the id and calls nobody, a proxy sees bytes."""
    return f": \nid: {id_}\n\n".encode()

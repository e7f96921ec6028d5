"""The protocols of a store, as processors and the runtime use it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Changes = Mapping[bytes, bytes | None]
"""Key to value, or None for a deletion."""

Logged = Iterable[tuple[bytes, bytes | None]]
"""Keys and values of changelog records, in their order."""
ToLog = Collection[tuple[bytes, bytes | None]]
"""The same, of records that are to be written: empty, and so false, if there are none."""


class KeyValueStore(Protocol):
    """An ordered map of bytes as a processor sees it, including the processor's own writes.

    A value in a window store begins with its time (8 bytes, big-endian milliseconds). The entry
    expires once the stream time is later than its time by the window.
    """

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values in the order of the keys; much cheaper than a `get` for each."""

    def put(self, key: bytes, value: bytes) -> None: ...

    def put_many(self, changes: Changes) -> None:
        """The same as a `put` or `delete` for each, but cheaper."""

    def delete(self, key: bytes) -> None: ...

    def range(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Entries with start <= key < end in key order; do not write while iterating.

        It is slow for a window store, which first sorts all entries that are not yet on disk.
        """


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a changelog is folded into a backend: the next offset, and when it was written.

    `stream_time` is the highest record timestamp the task had processed by then.
    """

    offset: int
    written_at_ms: int
    stream_time: int = 0


class Backend(Protocol):
    """The place of a store's committed state, on disk or in memory.

    Guarantee: `write` makes changes and checkpoint visible together or, after a crash, not at all.
    A backend that finds its files damaged raises `StoreDamaged` on opening or reading.
    """

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def range(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]: ...

    def write(self, changes: Changes, checkpoint: Checkpoint) -> None: ...

    def to_changelog(self, changes: Changes) -> ToLog:
        """The records that hold these changes; empty if there are none to send."""

    def from_changelog(self, records: Logged) -> dict[bytes, bytes | None]:
        """The changes in these records: the last one of each key."""

    def checkpoint(self) -> Checkpoint | None:
        """None for a new or wiped store."""

    def wipe(self) -> None:
        """Forget everything, the checkpoint too."""

    def close(self) -> None: ...


class Tables(Protocol):
    """Numbered ordered maps in one place, written together and dropped whole.

    Backends are built on them: a key-value store uses one table, a window store one for each
    segment. Implementations differ only in where they keep the bytes.
    """

    def numbers(self) -> Sequence[int]:
        """Tables that exist, ascending."""

    def get(self, table: int, key: bytes) -> bytes | None: ...

    def get_many(self, table: int, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def range(self, table: int, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]: ...

    def write(self, changes: Mapping[int, Changes], checkpoint: Checkpoint) -> None:
        """Change some tables, and set the checkpoint, in one step."""

    def drop(self, table: int) -> None: ...

    def checkpoint(self) -> Checkpoint | None: ...

    def wipe(self) -> None: ...

    def close(self) -> None: ...

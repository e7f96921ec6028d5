"""How much one connection may publish: at a rate, and on its way to the broker at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from streams.errors import TransientError


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the records of one connection, in bytes and in their number."""

    bytes_a_second: float = 4 * 1024 * 1024
    bytes_at_once: float = 16 * 1024 * 1024
    records_a_second: float = 2_000
    records_at_once: float = 4_000
    unsent_bytes: int = 4 * 1024 * 1024


class Flow:
    """The bounds of one connection, and what it has used of them; `clock` is in seconds."""

    def __init__(self, bounds: Bounds, clock: Callable[[], float]) -> None:
        self._bounds = bounds
        self._clock = clock
        self._at = clock()
        self._bytes = bounds.bytes_at_once
        self._records = bounds.records_at_once
        self._unsent = 0

    @contextmanager
    def sending(self, size: int) -> Iterator[None]:
        """Within the block a record of so many bytes is on its way.

        Raises:
            TransientError: it is too much now.
        """
        self._fill()
        bounds = self._bounds
        is_full = self._unsent > 0 and self._unsent + size > bounds.unsent_bytes
        if is_full or self._records < 1 or self._bytes < min(size, bounds.bytes_at_once):
            raise TransientError("this worker publishes more than an owner takes of it: try later")
        self._records -= 1
        self._bytes -= size
        self._unsent += size
        try:
            yield
        finally:
            self._unsent -= size

    def _fill(self) -> None:
        now, bounds = self._clock(), self._bounds
        gained, self._at = max(0.0, now - self._at), now
        self._bytes = min(bounds.bytes_at_once, self._bytes + gained * bounds.bytes_a_second)
        self._records = min(
            bounds.records_at_once, self._records + gained * bounds.records_a_second
        )

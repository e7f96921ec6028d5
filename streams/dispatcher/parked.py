"""Tracks the jobs for which a command waits because it arrived before its job."""

from __future__ import annotations

from collections.abc import Callable


class ParkedIds(set[str]):
    """Ids of such jobs; `recent` are those that came or went since `mark`.

    What came or went since `committed` is looked up again where writes are taken back.
    """

    def __init__(self) -> None:
        super().__init__()
        self.recent: set[str] = set()
        self._earlier: set[str] = set()

    def add(self, job_id: str, /) -> None:
        self.recent.add(job_id)
        super().add(job_id)

    def discard(self, job_id: object, /) -> None:
        if isinstance(job_id, str):
            self.recent.add(job_id)
        super().discard(job_id)

    def mark(self) -> None:
        """A record or a batch begins."""
        self._earlier |= self.recent
        self.recent = set()

    def committed(self) -> None:
        """What was done so far is durable."""
        self._earlier.clear()
        self.recent.clear()

    def undone(self, parked_for: Callable[[str], bool], *, recent: bool) -> None:
        """Writes were taken back, the `recent` ones or all: see for which jobs commands wait."""
        for job_id in self.recent if recent else self.recent | self._earlier:
            if parked_for(job_id):
                super().add(job_id)
            else:
                super().discard(job_id)

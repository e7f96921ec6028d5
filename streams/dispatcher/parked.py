"""Tracks the jobs for which a command waits because it arrived before its job."""

from __future__ import annotations

from collections.abc import Callable


class ParkedIds(set[str]):
    """The ids of these jobs.

    `recent` are the ids that were added or discarded since `mark`. When writes are taken back, the
    changed ids are looked up in the store again.
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
        """Note that a record or a batch begins."""
        self._earlier |= self.recent
        self.recent = set()

    def committed(self) -> None:
        """Note that all changes so far are durable."""
        self._earlier.clear()
        self.recent.clear()

    def undone(self, parked_for: Callable[[str], bool], *, recent: bool) -> None:
        """Look up the jobs again whose commands were taken back: the `recent` ones, or all."""
        for job_id in self.recent if recent else self.recent | self._earlier:
            if parked_for(job_id):
                super().add(job_id)
            else:
                super().discard(job_id)

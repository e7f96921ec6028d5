"""Waiting jobs in the order in which they became ready."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

Entry = tuple[int, str, int]
"""A waiting job: when it became ready (milliseconds), its id, and the number of its lane or line.

It holds plain values only, so that Python's garbage collector does not scan a million entries
again and again.
"""

STALE = 16
"""A heap may hold this many removed entries more than it has others."""


class JobHeap:
    """Waiting jobs, oldest first.

    `waiting` counts them; `jobs` is a heap that may also hold removed ones, but never at its head.
    """

    __slots__ = ("jobs", "waiting")

    def __init__(self) -> None:
        self.jobs: list[Entry] = []
        self.waiting = 0

    def push(self, entry: Entry) -> bool:
        """Add a job; return whether it is the oldest now."""
        heappush(self.jobs, entry)
        self.waiting += 1
        return self.jobs[0] is entry

    def drop(self, members: Mapping[str, Entry]) -> None:
        """Forget a job that left `members`: at once at the heap's head, else in a later cleanup."""
        self.waiting -= 1
        jobs = self.jobs
        while jobs and members.get(jobs[0][1]) is not jobs[0]:
            heappop(jobs)
        if len(jobs) > 2 * self.waiting + STALE:
            self.jobs = [entry for entry in jobs if members.get(entry[1]) is entry]
            heapify(self.jobs)

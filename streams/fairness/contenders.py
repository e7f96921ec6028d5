"""Orders the jobs that wait for a place in full buckets, and says which comes next.

A *line* has the jobs of one pool, tenant, type and priority that the same buckets count, so there
is room for all of them or for none, and the whole line moves from one full bucket to another. A
*contender* has the lines of one pool, tenant, type and priority that wait for one bucket. Of those
that wait for a bucket the contender comes first that has waited longest, its priority's head start
included; one that got a turn comes last, so one tenant's backlog holds up no other's, however many
other buckets count its jobs. All times are in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from streams.fairness.job_heap import STALE, Entry, JobHeap
from streams.limits.buckets import Bucket

Name = tuple[str, str, str, str]
"""The pool, tenant, type and priority of jobs."""

Rank = tuple[int, int]
"""Since when a contender waits, less its head start, and its last turn; the lowest comes first."""


class Line(JobHeap):
    """The jobs of one name that the same buckets count: `ahead` are in their pool's queue.

    Those behind them are in the heap. `last` is the youngest of the jobs ahead, if there are any.
    """

    __slots__ = ("ahead", "contender", "last", "name", "number", "oldest", "own")

    def __init__(self, number: int, name: Name, own: tuple[Bucket, ...]) -> None:
        super().__init__()
        self.number = number
        self.name = name
        self.own = own
        self.ahead = 0
        self.last: Entry | None = None
        self.contender: Contender | None = None
        self.oldest: int | None = None


class Contender:
    """The lines of one name that wait for one bucket, `count` in number.

    `heads` is a heap of their oldest jobs that may also hold former ones, but never at its head.
    `rank` is the place in the bucket's order, and `turn` numbers the last turn, at `served_at`.
    """

    __slots__ = ("bucket", "count", "heads", "name", "number", "rank", "served_at", "turn")

    def __init__(self, number: int, bucket: Bucket, name: Name) -> None:
        self.number = number
        self.bucket = bucket
        self.name = name
        self.count = 0
        self.heads: list[Entry] = []
        self.served_at = 0
        self.turn = 0
        self.rank: Rank | None = None


class Contenders:
    """The orders of all buckets; `lines` are those of one partition, by number."""

    def __init__(self, head_starts: Mapping[str, int], lines: Mapping[int, Line]) -> None:
        self._head_starts = head_starts
        self._lines = lines
        self._made = self._turns = 0
        self._all: dict[int, Contender] = {}
        self._named: dict[tuple[Bucket, Name], Contender] = {}
        self._orders: dict[Bucket, list[tuple[Rank, int]]] = {}  # heaps of contenders

    def has(self, bucket: Bucket) -> bool:
        """Whether a line waits for a bucket."""
        return bucket in self._orders

    def buckets_of(self, tenant_id: str) -> list[Bucket]:
        """The buckets of one tenant for which lines wait."""
        return [bucket for bucket in self._orders if bucket.tenant_id == tenant_id]

    def join(self, line: Line, bucket: Bucket) -> None:
        """Let a line wait for a bucket, and for no other one."""
        self.leave(line)
        contender = line.contender = self._named.get((bucket, line.name)) or self._new(line, bucket)
        contender.count += 1
        self.has_older(line)

    def leave(self, line: Line) -> None:
        """Let a line wait for no bucket."""
        contender, line.contender = line.contender, None
        if contender is None:
            return
        contender.count -= 1
        if contender.count:
            self._settle(contender)
        else:
            self._forget(contender)

    def has_older(self, line: Line) -> None:
        """Follow that a line has another oldest job."""
        if line.contender is not None:
            heappush(line.contender.heads, line.jobs[0])
            self._settle(line.contender)

    def first(self, bucket: Bucket) -> Line | None:
        """The line that gets the next place of a bucket."""
        order = self._orders.get(bucket)
        while order:
            rank, number = order[0]
            contender = self._all.get(number)
            if contender is not None and contender.rank == rank:
                return self._lines[contender.heads[0][2]]
            heappop(order)
        return None

    def serve(self, line: Line, now: int) -> None:
        """Note a turn of the contender that a line is of, before the line's oldest job leaves."""
        if line.contender is not None:
            self._turns += 1
            line.contender.served_at, line.contender.turn = now, self._turns

    def _new(self, line: Line, bucket: Bucket) -> Contender:
        self._made += 1
        contender = Contender(self._made, bucket, line.name)
        self._all[contender.number] = self._named[bucket, line.name] = contender
        self._orders.setdefault(bucket, [])
        return contender

    def _forget(self, contender: Contender) -> None:
        """Remove a contender without lines, and its bucket's order with the last one."""
        del self._all[contender.number], self._named[contender.bucket, contender.name]
        order = self._orders[contender.bucket]
        while order and order[0][1] not in self._all:
            heappop(order)
        if not order:
            del self._orders[contender.bucket]

    def _settle(self, contender: Contender) -> None:
        """Give a contender its place in its bucket's order."""
        heads = contender.heads
        while not self._is_head(contender, heads[0]):
            heappop(heads)
        if len(heads) > 2 * contender.count + STALE:
            contender.heads = list({e[2]: e for e in heads if self._is_head(contender, e)}.values())
            heapify(contender.heads)
        since = max(contender.served_at, contender.heads[0][0])
        rank = since - self._head_starts.get(contender.name[3], 0), contender.turn
        if rank != contender.rank:
            contender.rank = rank
            heappush(self._orders[contender.bucket], (rank, contender.number))

    def _is_head(self, contender: Contender, entry: Entry) -> bool:
        """Whether a job is the oldest of a line of a contender."""
        line = self._lines.get(entry[2])
        return line is not None and line.contender is contender and line.jobs[0] is entry

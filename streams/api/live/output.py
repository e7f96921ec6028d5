"""What the jobs of a stream said: a page of it at a time, in the order of the topic."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from heapq import merge
from itertools import chain

from streams.api.live.frames import Frame, Place
from streams.api.live.page import PAGE_BYTES, Limit, Page
from streams.api.live.position import LIVE, Position
from streams.api.live.table import Said, Source, said_since
from streams.api.live.tokens import Tokens, frame_of, tokens_at

_PAGE_ROWS = 500
"""So many rows are in a page, and one more for each job: all are asked for each page."""

_Line = tuple[Source, Said]


class Output:
    """How far one reader is in what its jobs said."""

    def __init__(self, position: Position) -> None:
        self._position = position
        self._tokens: dict[str, Tokens] = {}

    def of_jobs(
        self, connection: sqlite3.Connection, sources: Iterable[Source], limit: Limit, page: Page
    ) -> list[Frame]:
        """Return what some jobs said that the reader has not seen, up to where the page is full.

        Those of one partition come in the order of their offsets, whoever said them. A record from
        the limit on waits for its own change.
        """
        left, queues = set[str](), list[Iterator[_Line]]()
        for source in sources:
            rows = said_since(connection, source, self._position.of(source.partition, LIVE))
            first, end = next(rows, None), limit(source.partition, LIVE)
            if first is not None and first.off < end:
                page.oldest = min(page.oldest, first.at)
                queues.append(_in_turn(source, chain((first,), rows), end, left))
        found, size, most = list[Frame](), 0, _PAGE_ROWS + len(queues)
        for source, said in merge(*queues, key=_order):
            if len(found) == most or size > PAGE_BYTES:
                page.again |= {(job_id, "live") for job_id in left}
                break
            found.append(self._frame(connection, source, said))
            size += len(said.text)
        return found

    def forget_others(self, kept: Collection[str]) -> None:
        """Forget how far the reader is in all but these jobs; the position says it, too."""
        self._tokens = {job_id: at for job_id, at in self._tokens.items() if job_id in kept}

    def _frame(self, connection: sqlite3.Connection, source: Source, said: Said) -> Frame:
        tokens = self._tokens.get(source.job_id)
        if tokens is None:
            at = self._position.of(source.partition, LIVE)
            tokens = self._tokens[source.job_id] = tokens_at(connection, source, at)
        if tokens.is_new(said):
            return frame_of(source, said)
        return Frame("token", None, Place(source.partition, LIVE, said.off))


def _in_turn(source: Source, rows: Iterable[Said], end: float, left: set[str]) -> Iterator[_Line]:
    """Yield what a job said before an offset; `left` has the job until all was taken."""
    left.add(source.job_id)
    for said in rows:
        if said.off >= end:
            break
        yield source, said
    left.discard(source.job_id)


def _order(line: _Line) -> tuple[int, int]:
    source, said = line
    return source.partition, said.off

"""The checker: what became of each event, by the lines that the handlers wrote alone."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Set
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Line:
    kind: str
    event_id: str
    at: float


@dataclass(frozen=True)
class Verdict:
    """Which events were answered, never ended and are forgotten (`lost`), are unfinished by the
    peer's own account (`stuck`), had their effect more than once (`doubled`), began more than once
    though they never wait (`repeated`), and were never sent (`unknown`)."""

    lost: Set[str] = frozenset()
    stuck: Set[str] = frozenset()
    doubled: Set[str] = frozenset()
    repeated: Set[str] = frozenset()
    unknown: Set[str] = frozenset()

    @property
    def wrong(self) -> int:
        """How many faults a run has in which nothing was killed."""
        every = (self.lost, self.stuck, self.doubled, self.repeated, self.unknown)
        return sum(map(len, every))


class Journal:
    """The file of a run, read by its lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch(0o666)
        path.chmod(0o666)

    def clear(self) -> None:
        """Forget earlier runs."""
        os.truncate(self.path, 0)

    def count(self, kind: str) -> int:
        """How many lines of a kind there are."""
        data = b"\n" + self.path.read_bytes()
        return data.count(f"\n{kind} ".encode())

    def lines(self) -> Iterator[Line]:
        for line in self.path.read_text().splitlines():
            kind, event_id, at = line.split()
            yield Line(kind, event_id, float(at))

    def firsts(self, kind: str) -> dict[str, float]:
        """When each event had its first line of a kind."""
        found: dict[str, float] = {}
        for line in self.lines():
            if line.kind == kind:
                found.setdefault(line.event_id, line.at)
        return found

    def verdict(
        self,
        answered: Collection[str],
        sent: Collection[str],
        left: Collection[str] = (),
        calling: Collection[str] = (),
    ) -> Verdict:
        """Judge the events that were answered, among those that were sent.

        `left` are those that the peer calls unfinished, and `calling` those whose handlers call the
        tool: without the call they have not ended, whatever their handler says.
        """
        counts = {kind: Counter[str]() for kind in ("start", "effect", "woke", "end")}
        for line in self.lines():
            counts[line.kind][line.event_id] += 1
        starts = counts["start"]
        ended = counts["end"].keys() - (set(calling) - counts["effect"].keys())
        return Verdict(
            lost=set(answered) - ended - set(left),
            stuck=set(left),
            doubled=_more_than_once(counts["effect"]),
            repeated=_more_than_once(starts) - counts["woke"].keys(),
            unknown=_roots(starts) - set(sent),
        )


def _more_than_once(counts: Counter[str]) -> set[str]:
    return {each for each, count in counts.items() if count > 1}


def _roots(event_ids: Collection[str]) -> set[str]:
    """The events; a child of a fan-out is named `EVENT_ID/NUMBER`."""
    return {each.partition("/")[0] for each in event_ids}

"""The difference of two texts by line, as a page shows it: bounded, whatever somebody has typed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain
from typing import Literal

_AROUND = 3
"""Lines that are shown before and after a change."""
_MOST_LINES, _MOST_ALIKE = 5_000, 10_000
"""Lines of both texts, and pairs of lines that are alike, which are compared. Beyond that, all
lines between the first change and the last count as changed: the comparison would take seconds."""
_MOST_SHOWN = 2_000
_LONGEST_LINE = 2_000


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a difference; one that is `left out` says how many there are in its place."""

    kind: Literal["same", "removed", "added", "left out"]
    text: str

    @property
    def sign(self) -> str:
        return {"removed": "\u2212", "added": "+"}.get(self.kind, "")


def difference(before: str, after: str) -> list[Line]:
    """Return the changed lines of a text with those around them; nothing if there is no change."""
    found = list(_with_gaps(list(_lines(before.splitlines(), after.splitlines()))))
    left = len(found) - _MOST_SHOWN
    return found if left <= 0 else [*found[:_MOST_SHOWN], _left_out(left)]


def _lines(before: Sequence[str], after: Sequence[str]) -> Iterator[Line]:
    first = _alike(before, after)
    last = _alike(before[first:][::-1], after[first:][::-1])
    middle = before[first : len(before) - last], after[first : len(after) - last]
    same = (_line("same", text) for text in before[:first])
    end = (_line("same", text) for text in before[len(before) - last :])
    return chain(same, _compared(*middle), end)


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines two texts have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _compared(before: Sequence[str], after: Sequence[str]) -> Iterator[Line]:
    if _takes_long(before, after):
        yield from (_line("removed", text) for text in before)
        yield from (_line("added", text) for text in after)
        return
    steps = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for step, first, last, first_after, last_after in steps:
        if step == "equal":
            yield from (_line("same", text) for text in before[first:last])
        else:
            yield from (_line("removed", text) for text in before[first:last])
            yield from (_line("added", text) for text in after[first_after:last_after])


def _takes_long(before: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether a comparison takes long: its time grows with the pairs that are alike."""
    if len(before) + len(after) > _MOST_LINES:
        return True
    ones, others = Counter(before), Counter(after)
    return sum(count * others[text] for text, count in ones.items()) > _MOST_ALIKE


def _with_gaps(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield lines, but of those that are the same only the ones near a change."""
    near = set[int]()
    for number, line in enumerate(lines):
        if line.kind != "same":
            near.update(range(number - _AROUND, number + _AROUND + 1))
    gap = 0
    for number, line in enumerate(lines):
        if number in near:
            if gap:
                yield _left_out(gap)
            gap = 0
            yield line
        else:
            gap += 1
    if gap and near:
        yield _left_out(gap)


def _line(kind: Literal["same", "removed", "added"], text: str) -> Line:
    left = len(text) - _LONGEST_LINE
    return Line(
        kind, text if left <= 0 else f"{text[:_LONGEST_LINE]}\u2026 ({left:,} more characters)"
    )


def _left_out(count: int) -> Line:
    return Line("left out", f"{count:,} line{'' if count == 1 else 's'} left out")

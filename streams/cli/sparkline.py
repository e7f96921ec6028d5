"""Numbers in the order of time as a line of bars."""

from __future__ import annotations

from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 30


def sparkline(values: Sequence[int]) -> str:
    """Numbers as bars, at most 30: neighbours are added up where there are more."""
    group = -(-len(values) // _WIDTH) or 1
    sums = [sum(values[at : at + group]) for at in range(0, len(values), group)]
    highest = max(sums, default=0)
    return "".join(_bar(value, highest) for value in sums)


def _bar(value: int, highest: int) -> str:
    return _BARS[-(-value * (len(_BARS) - 1) // highest)] if value else " "

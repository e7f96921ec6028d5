"""Where the bars of a waterfall begin and end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streams.http.moments import milliseconds
from streams.process.wall_clock import wall_ms

WIDTH = 1_000.0
_LEAST = 3.0
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Bar:
    """A span with its place: `left` and `width` of `WIDTH`, `depth` in spans above it."""

    span: Mapping[str, Any]
    left: float
    width: float
    depth: int
    ms: int


def bars(line: Mapping[str, Any]) -> list[Bar]:
    """Return the bars of a page of a timeline, in its order; what still goes on ends now."""
    spans = line["spans"]
    if not spans:
        return []
    begin, end = milliseconds(line["from"] or spans[0]["from"]), _end(line)
    whole = max(end - begin, 1)
    depths: dict[str, int] = {}
    made = []
    for span in spans:
        depth = depths[span["id"]] = min(depths.get(span["parent"], -1) + 1, _DEEPEST)
        first = milliseconds(span["from"])
        last = wall_ms() if span["to"] is None else milliseconds(span["to"])
        left = min(max((first - begin) / whole, 0.0), 1.0) * (WIDTH - _LEAST)
        width = max((last - first) / whole * WIDTH, _LEAST)
        made.append(Bar(span, left, min(width, WIDTH - left), depth, max(last - first, 0)))
    return made


def _end(line: Mapping[str, Any]) -> int:
    """Return when the last span ends; now, if one still goes on."""
    ends = [span["to"] for span in line["spans"]]
    if line["to"] is None or None in ends:
        return wall_ms()
    return max(milliseconds(each) for each in [line["to"], *ends])

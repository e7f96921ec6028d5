"""What `tidegate events timeline` and `tidegate jobs timeline` print for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer

from streams.cli.cells import Json
from streams.cli.lists import listed
from streams.cli.operator_command import Answer, Api
from streams.cli.options import Cursor

_COLUMNS = ("after", "took", "status", "what", "detail")

_FailedOnly = Annotated[bool, typer.Option("--failed-only", help="Only what failed.")]
_Most = Annotated[
    int, typer.Option("--limit", min=1, max=1_000, help="Show at most this many.", metavar="N")
]


@dataclass(frozen=True)
class Spans:
    """The options of a timeline: which spans, how many, and behind which page."""

    failed_only: _FailedOnly = False
    limit: _Most = 1_000
    cursor: Cursor = None

    def of(self, api: Api, path: str) -> Answer:
        """Return a page of the timeline at a path."""
        only = "true" if self.failed_only else None
        return api.get(path, failed_only=only, limit=self.limit, cursor=self.cursor)


def timeline(found: Json) -> None:
    """The spans below each other, each after how many seconds, and how long it took."""
    depths: dict[str, int] = {}
    for span in found["spans"]:
        depths[span["id"]] = depths.get(span["parent"], -1) + 1
    rows = [_row(span, depths[span["id"]], found["from"]) for span in found["spans"]]
    listed(rows, _COLUMNS, found["next_cursor"])


def _row(span: Json, depth: int, begin: str) -> Json:
    name = span["name"] if span["kind"] in span["name"] else f"{span['kind']} {span['name']}"
    end = span["to"]
    return {
        "after": f"{_seconds(begin, span['from']):.3f} s",
        "took": "goes on" if end is None else f"{_seconds(span['from'], end):.3f} s",
        "status": span["status"],
        "what": f"{'› ' * depth}{name}",
        "detail": span["detail"],
    }


def _seconds(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()

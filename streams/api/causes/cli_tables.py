"""What `tidegate causes ...` prints for people."""

from __future__ import annotations

from collections.abc import Sequence

from streams.cli.cells import Json, console_of_any_width, print_fields
from streams.cli.lists import page

_COLUMNS = (
    *("open", "total", "status", "trend", "type", "message"),
    *("tenants", "code_version", "last_at", "first_at", "id"),
)
_BARS = "▁▂▃▄▅▆▇█"


def _row(cause: Json) -> Json:
    """A cause on one line: whether it came back, its trend as bars, and how many tenants it hit."""
    return {
        **cause,
        "status": "came back"
        if cause["came_back"] and cause["state"] == "open"
        else cause["state"],
        "type": cause["type"] or f"{cause['stage']}/{cause['topic']}",
        "trend": _bars(cause["trend"]["counts"]),
        "tenants": cause["tenants"]["count"],
        "last_at": cause["last_seen"],
        "first_at": cause["first_seen"],
    }


def _bars(counts: Sequence[int]) -> str:
    """A bar for each count, the largest one full; a dot for none."""
    most = max(counts, default=0)
    steps = len(_BARS) - 1
    return "".join("·" if not n else _BARS[round(n * steps / most)] for n in counts)


causes = page("causes", _COLUMNS, _row)


def cause(found: Json) -> None:
    """One cause, what was decided about it, and a letter of it."""
    console = console_of_any_width()
    shown = {
        **{name: value for name, value in found.items() if name not in ("sample", "decided")},
        "trend": f"{_bars(found['trend']['counts'])} of the last 24 hours",
        "minutes": f"{_bars(found['minutes']['counts'])} of the last 60 minutes",
        "tenants": f"{found['tenants']['count']}: {', '.join(found['tenants']['first'])}",
    }
    print_fields(console, shown)
    if found["decided"]:
        print_fields(console, found["decided"], "decided")
    if found["sample"]:
        kept = {k: v for k, v in found["sample"].items() if k != "replays"}
        print_fields(console, kept, "a letter of it")

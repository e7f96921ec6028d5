"""What `tidegate limits` prints for people: a line for each bucket, and what is paused."""

from __future__ import annotations

from collections.abc import Iterator

from streams.cli.cells import Json, console_of_any_width, print_fields, tell
from streams.cli.lists import listed

_OF_A_BUCKET = (
    *("tenant_id", "key", "used", "waiting", "oldest"),
    *("held_idle", "next_token_at", "paused"),
)
_COLUMNS = ("limit", "scope", *_OF_A_BUCKET)
_DECLARED = ("name", "scope", "match", "by", "concurrency", "rate", "burst")
_CIRCUITS = ("tool", "waiting", "trying", "oldest")
_PAUSES = ("scope", "value", "by", "at", "reason")


def listing(found: Json) -> None:
    """A line for each bucket, and one for each limit without any; and what is paused or cut off."""
    rows = [row for limit in found["limits"] for row in _rows(limit)]
    listed(rows, _COLUMNS, found["next_cursor"])
    _tell_of_more(found)
    if found["pauses"]:
        console_of_any_width().print("paused")
        listed(found["pauses"], _PAUSES, None)
    if found["circuits"]:
        console_of_any_width().print("tools that are cut off by their circuit breaker")
        listed([_circuit(each) for each in found["circuits"]], _CIRCUITS, None)


def _circuit(found: Json) -> Json:
    return {**found, "oldest": f"{found['oldest_seconds']:.0f} s"}


def of_tenant(found: Json) -> None:
    """The limits that a tenant has of its own."""
    tell(f"limits of tenant {found['tenant_id']}")
    listed(found["limits"], _DECLARED, None)


def paused(found: Json) -> None:
    """What somebody has paused."""
    tell(f"{_named(found)} is paused by {found['by']}: {found['reason']}")


def resumed(found: Json) -> None:
    """What starts again."""
    tell(f"{_named(found)} starts again; it was paused since {found['at']} by {found['by']}")


def _named(found: Json) -> str:
    return f"{found['scope'].replace('_', ' ')} {found['value']!r}"


def one(found: Json) -> None:
    """One limit, then its buckets."""
    console = console_of_any_width()
    for limit in found["limits"]:
        rate = limit["rate"] and f"{limit['rate']}, {limit['burst']} at once"
        shown = {name: value for name, value in limit.items() if name != "buckets"}
        print_fields(console, {**shown, "rate": rate, "burst": None})
        if limit["buckets"]:
            listed(list(_rows(limit)), _OF_A_BUCKET, found["next_cursor"])
        else:
            tell("no job runs or waits under it")
    _tell_of_more(found)


def _tell_of_more(found: Json) -> None:
    if not found["complete"]:
        tell("there are more jobs than one answer counts: these waited longest; try --tenant")


def _rows(limit: Json) -> Iterator[Json]:
    of = {"limit": limit["name"], "scope": limit["scope"]}
    if not limit["buckets"]:
        yield {**of, "tenant_id": limit["tenant_id"], "used": _used(0, limit)}
    for bucket in limit["buckets"]:
        oldest, pause = bucket["oldest_seconds"], bucket["paused"]
        yield {
            **of,
            **bucket,
            "used": _used(bucket["used"], limit),
            "waiting": bucket["waiting"] or None,
            "held_idle": bucket["held_idle"] or None,
            "paused": pause and f"by {pause['by']}: {pause['reason']}",
            "oldest": None if oldest is None else f"{oldest:.0f} s",
        }


def _used(used: int, limit: Json) -> str:
    """How many run, of how many; a cap inside each partition is no cap of their sum."""
    if limit["cap"] is None:
        return str(used)
    each = "inside each partition" in limit["holds"]
    return f"{used}, {limit['cap']} a partition" if each else f"{used} of {limit['cap']}"

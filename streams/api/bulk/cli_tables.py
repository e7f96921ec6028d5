"""What `tidegate bulk ...` prints for people."""

from __future__ import annotations

from streams.cli.cells import Json, console_of_any_width, print_fields
from streams.cli.lists import listed, page

_ACTS = ("status", "action", "count", "done", "failed", "waiting", "asked_at", "bulk_id", "note")
_ITEMS = ("number", "outcome", "reason", "tenant_id", "id", "made", "detail")
_EXCLUDED = ("reason", "count")
_APART = ("filter", "params", "positions", "excluded", "samples", "joined")

acts = page("bulk", _ACTS)
items = page("items", _ITEMS)


def act(found: Json) -> None:
    """One act: what it selects, how far it is, what it leaves out, and who took part."""
    console = console_of_any_width()
    print_fields(console, {k: v for k, v in found.items() if k not in _APART})
    for name in ("filter", "params"):
        if found.get(name):
            print_fields(console, found[name], name)
    plan(found, whole=False)
    if found.get("joined"):
        listed(found["joined"], ("did", "by", "at"), None)


def plan(found: Json, *, whole: bool = True) -> None:
    """What an act would be about, and what it leaves out."""
    if whole:
        print_fields(console_of_any_width(), {k: v for k, v in found.items() if k not in _APART})
    if found.get("samples"):
        listed(found["samples"], ("id", "tenant_id"), None)
    if found["excluded"]:
        listed(found["excluded"], _EXCLUDED, None)

"""What `tidegate approvals ...` prints for people."""

from __future__ import annotations

from streams.cli.cells import Json, console_of_any_width, print_block, print_fields, tell
from streams.cli.lists import page

_WAYS = ("to_approve", "to_reject", "page")


def approval(found: Json) -> None:
    """What is asked of people: its fields, the arguments of each effect, and how to decide."""
    console = console_of_any_width()
    apart = ("effects", "details", *_WAYS)
    print_fields(console, {k: v for k, v in found.items() if k not in apart} | found["details"])
    for effect in found["effects"]:
        print_block(console, f"{effect['tool']}/{effect['key']}", effect["arguments"])
    for way in (way for way in _WAYS if way in found):
        tell(f"{way.replace('_', ' ')}: {found[way]}")


approvals = page(
    "approvals",
    ("approval_id", "status", "key", "job_id", "tenant_id", "expires_at", "by", "prompt"),
)

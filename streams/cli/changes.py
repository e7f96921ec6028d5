"""Says which settings a command has changed, so that nobody is surprised by what it kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from streams.cli.cells import plain
from streams.cli.operator_command import Answer


def tell_changes(what: str, before: Answer | None, after: Answer, settings: Sequence[str]) -> None:
    """Write one line for each changed setting to standard error."""
    if before is None:
        typer.echo(f"created {what}", err=True)
        return
    enabled = before.get("disabled", False) and not after.get("disabled", False)
    if enabled:
        typer.echo(f"enabled {what}", err=True)
    changed = [name for name in settings if before.get(name) != after.get(name)]
    for name in changed:
        old, new = (_shown(each.get(name)) for each in (before, after))
        typer.echo(f"changed {what}: {name}: {old} -> {new}", err=True)
    if not changed and not enabled:
        typer.echo(f"{what} has these settings already", err=True)


def _shown(value: Any) -> str:
    return plain(value if value or value in (False, 0) else None)

"""Says which settings a command has changed, so that nobody is surprised by what it kept."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from streams.cli.operator_command import Answer
from streams.cli.tables import plain


def tell_changes(what: str, before: Answer | None, after: Answer, settings: Sequence[str]) -> None:
    """Write one line for each changed setting to standard error."""
    if before is None:
        typer.echo(f"created {what}", err=True)
        return
    if before["disabled"] and not after["disabled"]:
        typer.echo(f"enabled {what}", err=True)
    changed = [name for name in settings if before.get(name) != after.get(name)]
    for name in changed:
        old, new = (plain(each.get(name) or None) for each in (before, after))
        typer.echo(f"changed {what}: {name}: {old} -> {new}", err=True)
    if not changed and before["disabled"] == after["disabled"]:
        typer.echo(f"{what} has these settings already", err=True)

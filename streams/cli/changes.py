"""Changes of settings: the options that change one entry of a map, and what is told afterwards.

A command says what it has changed, so that nobody is surprised by what it kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def changed(kept: Mapping[str, Any], given: Sequence[str], flag: str) -> dict[str, Any]:
    """`kept` with each NAME=VALUE of `given`; an empty value removes the name.

    Raises:
        BadParameter: one has another form; names the flag.
    """
    found = dict(kept)
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=flag)
        if value:
            found[name] = value
        else:
            found.pop(name, None)
    return found

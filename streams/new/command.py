"""The command `tidegate new`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer


def new(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty directory.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Make a folder with an application, its routes and its tests to begin from.

    Example: tidegate new helpdesk
    """
    from streams.new.project import make

    made = make(directory)
    if as_json:
        typer.echo(json.dumps({"directory": str(directory), "files": made}))
        return
    for name in made:
        typer.echo(f"made {directory / name}")
    typer.echo(_next_steps(directory))


def _next_steps(directory: Path) -> str:
    return "\n".join(
        (
            "Next:",
            f"  cd {shlex.quote(str(directory))}",
            "  python -m pytest",
            "  tidegate dev --app app:app --topology topology.yaml --reload",
        )
    )

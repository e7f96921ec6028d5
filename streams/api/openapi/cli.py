"""`tidegate api ...`: what the API is, without an operator that runs."""

from __future__ import annotations

from pathlib import Path

import typer

api = typer.Typer(no_args_is_help=True, help="Print what the operator's API is.")


@api.callback()
def _group() -> None:
    """Keep `openapi` a command of a group."""


@api.command("openapi")
def openapi() -> None:
    """Print the API as an OpenAPI 3.1 document, as an operator of this version answers it.

    It needs no operator and no token. A running one answers it at /v1/openapi.json.

    Example: tidegate api openapi > openapi.json
    """
    typer.echo(Path(__file__).with_name("openapi.json").read_text(), nl=False)

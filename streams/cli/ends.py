"""How a command ends by an error: one line on standard error, and the error's exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from streams.errors import TidegateError, exit_code


def tell(error: object) -> None:
    """Print an error as every command does."""
    typer.echo(f"error: {error}", err=True)


@contextmanager
def errors_shown() -> Iterator[None]:
    try:
        yield
    except TidegateError as error:
        tell(error)
        raise typer.Exit(exit_code(error)) from None

"""How a command ends by an error: one line on standard error, and the error's exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from streams.cli.terminal_text import harmless
from streams.errors import TidegateError, exit_code


def tell(error: object) -> None:
    """Print an error as every command does; it may repeat what somebody else wrote."""
    typer.echo(f"error: {harmless(str(error))}", err=True)


@contextmanager
def errors_shown() -> Iterator[None]:
    try:
        yield
    except TidegateError as error:
        tell(error)
        raise typer.Exit(exit_code(error)) from None

"""How a command ends by an error: one line on standard error, and the error's exit code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from streams.cli.terminal_text import harmless
from streams.errors import TidegateError, exit_code


def tell(error: object) -> None:
    """Print an error as every command does; it may repeat what somebody else wrote."""
    typer.echo(f"error: {harmless(str(error))}", err=True)


@contextmanager
def interrupts_raised() -> Iterator[None]:
    """Raise KeyboardInterrupt also if Ctrl-C came while a client of Kafka was being made.

    confluent-kafka takes any exception of `PyObject_Str`, which looks for signals first, for a
    wrong type in the configuration, and raises a TypeError in its place.
    """
    try:
        yield
    except TypeError as error:
        if re.match("expected configuration property .* as type unicode string$", str(error)):
            raise KeyboardInterrupt from None
        raise


@contextmanager
def errors_shown() -> Iterator[None]:
    """End the command by an error of our own tree with its line and its exit code.

    Raises:
        KeyboardInterrupt: the command was interrupted.
    """
    try:
        with interrupts_raised():
            yield
    except TidegateError as error:
        tell(error)
        raise typer.Exit(exit_code(error)) from None

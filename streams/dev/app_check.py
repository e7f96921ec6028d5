"""Whether the application can be loaded, checked once before anything is started.

The check has its own process, so that whatever the application does to its interpreter stays there.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys

import typer

from streams.dev.process import describe_end
from streams.errors import ConfigError
from streams.worker.app_loader import load_app

_IMPORT_SECONDS = 60.0
_MARK = b"tidegate: job types: "
"""Begins the line of the answer: the application may print as well, even when it ends."""


def check(target: str) -> tuple[str, ...]:
    """Import it as a worker will; returns its job types.

    The process that tries prints why it cannot be imported.

    Raises:
        typer.Exit: it cannot be imported, or is no `App`.
        ConfigError: its import ended the interpreter.
    """
    # -P: as in a worker, the application's files take no part in the interpreter's own start.
    command = (sys.executable, "-P", "-m", __name__, target)
    try:
        ended = subprocess.run(  # noqa: S603
            command, check=False, stdout=subprocess.PIPE, timeout=_IMPORT_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(
            f"--app {target!r}: its import does not end within {_IMPORT_SECONDS:g} s: look for "
            "work or a thread that it starts when it is imported"
        ) from None
    if ended.returncode < 0:
        raise ConfigError(
            f"--app {target!r}: the process that imports it {describe_end(ended.returncode)}"
        )
    if ended.returncode:
        raise typer.Exit(ended.returncode)
    told = [line for line in ended.stdout.splitlines() if line.startswith(_MARK)]
    if not told:
        raise ConfigError(f"--app {target!r}: its import ends the interpreter: remove that call")
    return tuple(json.loads(told[-1].removeprefix(_MARK)))


def main() -> None:
    """Print the job types of the application `sys.argv[1]` as JSON.

    Exit code 2 and the error on standard error if it cannot be loaded.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            app = load_app(sys.argv[1])
        print(_MARK.decode() + json.dumps(sorted(app.jobs)), flush=True)
        os._exit(0)  # a thread that the import started must not keep this process
    except ConfigError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

"""Whether the application can be loaded, checked once before anything is started.

The check has its own process, so that whatever the application does to its interpreter stays there.
"""

from __future__ import annotations

import subprocess
import sys

import typer

from streams.dev.process import describe_end
from streams.errors import ConfigError
from streams.worker.app_loader import load_app


def check(target: str) -> None:
    """Import it as a worker will; the process that tries prints why it cannot be imported.

    Raises:
        typer.Exit: it cannot be imported, or is no `App`.
        ConfigError: its import ended the interpreter.
    """
    # -P: as in a worker, the application's files take no part in the interpreter's own start.
    command = (sys.executable, "-P", "-m", __name__, target)
    code = subprocess.run(command, check=False).returncode  # noqa: S603
    if code < 0:
        raise ConfigError(f"--app {target!r}: the process that imports it {describe_end(code)}")
    if code:
        raise typer.Exit(code)


def main() -> None:
    """Exit code 2 and the error on standard error if `sys.argv[1]` cannot be loaded."""
    try:
        load_app(sys.argv[1])
    except ConfigError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

"""Whether the application can be loaded, checked once before anything is started.

The check has its own process, so that whatever the application does to its interpreter stays there.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys

import typer

from streams.dev.process import describe_end
from streams.errors import ConfigError
from streams.worker.app_loader import load_app


def check(target: str) -> tuple[str, ...]:
    """Import it as a worker will; returns its job types.

    The process that tries prints why it cannot be imported.

    Raises:
        typer.Exit: it cannot be imported, or is no `App`.
        ConfigError: its import ended the interpreter.
    """
    # -P: as in a worker, the application's files take no part in the interpreter's own start.
    command = (sys.executable, "-P", "-m", __name__, target)
    ended = subprocess.run(command, check=False, stdout=subprocess.PIPE)  # noqa: S603
    if ended.returncode < 0:
        raise ConfigError(
            f"--app {target!r}: the process that imports it {describe_end(ended.returncode)}"
        )
    if ended.returncode:
        raise typer.Exit(ended.returncode)
    if not ended.stdout:
        raise ConfigError(f"--app {target!r}: its import ends the interpreter: remove that call")
    return tuple(json.loads(ended.stdout.splitlines()[-1]))


def main() -> None:
    """Print the job types of the application `sys.argv[1]` as JSON.

    Exit code 2 and the error on standard error if it cannot be loaded.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            app = load_app(sys.argv[1])
        print(json.dumps(sorted(app.jobs)))
    except ConfigError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

"""`tidegate dev --reload`: workers start again when the application's code has changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Iterator
from pathlib import Path

import typer
from watchfiles import Change, awatch

from streams.dev.app_check import check
from streams.dev.console.screen import Screen
from streams.dev.supervisor import Supervisor
from streams.errors import ConfigError

_NOT_CODE = {"__pycache__", "node_modules", "venv", "site-packages"}
_MARKS = ("pyvenv.cfg", "dev.lock")
"""Files in folders without code: a virtual environment's, and a data directory's."""
_GATHER_MS = 200


async def reload_workers(
    supervisor: Supervisor,
    workers: Collection[str],
    app: str,
    root: Path,
    topology: Path | None,
    screen: Screen,
) -> None:
    """Restart the workers after each change below `root`, until cancelled; paths are absolute.

    Code that cannot be imported is told, and the workers stay as they are until it can.
    """
    restart: asyncio.Task[None] | None = None
    try:
        async for changed in changes(root, topology):
            if topology and topology in changed:
                screen.say(
                    f"{topology.name} has changed: stop dev and start it again to use it", "warning"
                )
            if not (code := sorted(path for path in changed if path.suffix == ".py")):
                continue
            if not await _importable(app, screen):
                continue
            if restart:
                restart.cancel()
            restart = asyncio.create_task(_restart(supervisor, workers, _shown(code), screen))
    finally:
        if restart:
            restart.cancel()


async def _importable(app: str, screen: Screen) -> bool:
    try:
        await asyncio.to_thread(check, app)
    except (ConfigError, typer.Exit) as error:
        if isinstance(error, ConfigError):
            screen.say(f"error: {error}", "error")
        screen.say("the workers keep the code from before; waiting for the next change", "warning")
        return False
    return True


async def _restart(
    supervisor: Supervisor, workers: Collection[str], changed: str, screen: Screen
) -> None:
    began = time.monotonic()
    screen.say(f"{changed} changed: restarting {', '.join(workers)}")
    await supervisor.restart(workers)
    screen.say(f"{', '.join(workers)} restarted in {time.monotonic() - began:.1f} s")


async def changes(root: Path, topology: Path | None = None) -> AsyncIterator[set[Path]]:
    """Sets of changed files of code below `root`, and `topology` if it is one.

    Folders with a dot or without code are not watched: a broker writes all the time to its own.
    A new folder is watched from the next change on.
    """
    watched = {topology} if topology else set()

    def wanted(_: Change, name: str) -> bool:
        path = Path(name)
        # Editors keep locks and copies under names that begin with a dot.
        code = path.suffix == ".py" or path.is_dir()
        return path in watched or (code and not path.name.startswith("."))

    while True:
        folders = list(code_folders(root))
        beside = {path.parent for path in watched} - set(folders)
        watch = awatch(
            *folders, *beside, recursive=False, watch_filter=wanted, step=_GATHER_MS,
            ignore_permission_denied=True,
        )  # fmt: skip
        async for found in watch:
            if files := {path for _, name in found if not (path := Path(name)).is_dir()}:
                yield files
            if list(code_folders(root)) != folders:
                break


def code_folders(root: Path) -> Iterator[Path]:
    """The folder and those below it that may have code, sorted within each."""
    try:
        below = sorted(root.iterdir())
    except OSError:  # a build or a checkout removed it meanwhile
        return
    yield root
    for path in below:
        if path.is_dir() and not path.is_symlink() and not _without_code(path):
            yield from code_folders(path)


def _without_code(folder: Path) -> bool:
    named = folder.name.startswith(".") or folder.name in _NOT_CODE
    return named or any((folder / mark).exists() for mark in _MARKS)


def _shown(paths: Collection[Path]) -> str:
    names = [path.name for path in paths]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

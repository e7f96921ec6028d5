"""`tidegate dev --reload`: workers start again when the application's code has changed."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator
from contextlib import aclosing
from functools import partial
from pathlib import Path

import typer
from watchfiles import Change, awatch
from watchfiles.main import FileChange

from streams.dev.app_check import check
from streams.dev.console.screen import Screen
from streams.dev.supervisor import Supervisor
from streams.errors import ConfigError

_NOT_CODE = {"__pycache__", "node_modules", "venv", "site-packages", "tests", "test"}
_TESTS = re.compile(r"test_.*|.*_test|conftest")
_MARKS = ("pyvenv.cfg", "dev.lock")
"""Files in folders without code: a virtual environment's, and a data directory's."""
_GATHER_MS = 200
_LOOK_AGAIN_MS = 2_000
"""How often to look without a notice: a change just before a watch begins causes none."""


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
        async for changed in changes(root, topology, partial(screen.say, level="warning")):
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


async def changes(
    root: Path, topology: Path | None = None, tell: Callable[[str], None] = lambda _text: None
) -> AsyncIterator[set[Path]]:
    """Sets of changed files of code below `root`, and `topology` if it is one.

    Tests are no code of the application. Folders with a dot or without code are not watched: a
    broker writes all the time to its own.
    A notice only says when to look. Each look compares with the one before, so no change is lost
    while the caller works or between two watches. `tell` gets why folders cannot be watched.
    """
    known = _stamps(root, topology)
    async for _ in _notices(root, topology, tell):
        found = _stamps(root, topology)
        changed = {path for path, _ in known.items() ^ found.items()}
        known = found
        if changed:
            yield changed


async def _notices(
    root: Path, topology: Path | None, tell: Callable[[str], None]
) -> AsyncIterator[None]:
    """One before each watch begins, one for each change that it sees, and one every 2 s."""
    told = ""
    while True:
        yield
        folders = list(code_folders(root))
        try:
            async with aclosing(_watch(folders, topology)) as watch:
                async for _ in watch:
                    yield
                    if list(code_folders(root)) != folders:
                        break
        except OSError as error:  # a folder is gone, or the system has no more watches
            if str(error) != told:
                told = str(error)
                tell(f"a watch of the code ended ({error}); changes are seen within 2 s")
            await asyncio.sleep(_LOOK_AGAIN_MS / 1000)


def _watch(folders: list[Path], topology: Path | None) -> AsyncGenerator[set[FileChange], None]:
    watched = {topology} if topology else set()

    def wanted(_: Change, name: str) -> bool:
        path = Path(name)
        return path in watched or _is_code(path) or path.is_dir()

    beside = {path.parent for path in watched} - set(folders)
    return awatch(
        *folders,
        *beside,
        recursive=False,
        watch_filter=wanted,
        step=_GATHER_MS,
        rust_timeout=_LOOK_AGAIN_MS,
        yield_on_timeout=True,
        ignore_permission_denied=True,
    )


def _stamps(root: Path, topology: Path | None) -> dict[Path, tuple[int, int, int]]:
    """Each file of code, and the topology, with its inode, size and time of change."""
    found: dict[Path, tuple[int, int, int]] = {}
    for path in (*_code(root), *([topology] if topology else [])):
        with contextlib.suppress(OSError):
            state = path.stat()
            found[path] = state.st_ino, state.st_size, state.st_mtime_ns
    return found


def _code(root: Path) -> Iterator[Path]:
    for folder in code_folders(root):
        with contextlib.suppress(OSError):
            yield from filter(_is_code, folder.glob("*.py"))


def _is_code(path: Path) -> bool:
    """Whether an application may import the file: it is Python, and no test."""
    # Editors keep locks and copies under names that begin with a dot.
    return (
        path.suffix == ".py" and not path.name.startswith(".") and not _TESTS.fullmatch(path.stem)
    )


def code_folders(root: Path) -> Iterator[Path]:
    """The folder and those below it that may have code, sorted within each."""
    try:
        below = sorted(root.iterdir())
    except OSError:  # a build or a checkout removed it meanwhile
        return
    yield root
    for path in below:
        if _has_code(path):
            yield from code_folders(path)


def _has_code(path: Path) -> bool:
    if path.name.startswith(".") or path.name in _NOT_CODE:
        return False
    try:
        folder = path.is_dir() and not path.is_symlink()
        return folder and not any((path / mark).exists() for mark in _MARKS)
    except OSError:  # a folder that may not be entered, such as a database's
        return False


def _shown(paths: Collection[Path]) -> str:
    names = [path.name for path in paths]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

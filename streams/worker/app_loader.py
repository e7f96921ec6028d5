"""Imports an application; if that fails, the error shows the application's own lines."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path

from streams.errors import ConfigError
from streams.worker.app import App
from streams.worker.handler.own_frames import is_own


def load_app(target: str) -> App:
    """Import the application that `module:attribute` names; the working directory is importable.

    Raises:
        ConfigError: the name is malformed, the module or attribute does not exist, it is not an
            `App`, or the module raises. The message then shows the application's own lines.
    """
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise ConfigError(f"--app {target!r}: write module:attribute, as in shop.jobs:app")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigError(_missing_module(target, module_name, error)) from error
    except (Exception, SystemExit) as error:
        raise ConfigError(_broken_module(target, module_name, error)) from error
    found = getattr(module, attribute, None)
    if found is None:
        raise ConfigError(f"--app {target!r}: module {module_name} has no {attribute!r}")
    if not isinstance(found, App):
        kind = type(found).__name__
        raise ConfigError(f"--app {target!r}: {attribute} is a {kind}, not a streams.App")
    found.check_effects()
    return found


def _missing_module(target: str, module: str, error: ModuleNotFoundError) -> str:
    missing = error.name or ""
    if f"{module}.".startswith(f"{missing}."):
        return f"--app {target!r}: no module {missing!r} in {Path.cwd()} or among the installed"
    return (
        f"--app {target!r}: {module} imports {missing!r}, which is not installed"
        f"\n{_own_lines(error)}".rstrip()
    )


def _broken_module(target: str, module: str, error: BaseException) -> str:
    # The message comes last: a syntax error has its line and a caret before it.
    *place, told = traceback.format_exception_only(error)
    lines = "".join((_own_lines(error), *place)).rstrip()
    return f"--app {target!r}: {module} cannot be imported: {told.strip()}\n{lines}"


def _own_lines(error: BaseException) -> str:
    """Format the frames in the application: neither ours, nor the importer's, nor a library's."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen ")
        and not _below(frame, Path(__file__).parents[1], Path(importlib.__file__).parent)
    ]
    own = list(filter(is_own, frames))
    # If there are none, the application itself is installed among the libraries.
    return "".join(traceback.format_list(own or frames))


def _below(frame: traceback.FrameSummary, *folders: Path) -> bool:
    return any(Path(frame.filename).is_relative_to(folder) for folder in folders)

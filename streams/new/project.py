"""`tidegate new`: copies the template of an application into a new directory."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from streams.errors import ConfigError

_TEMPLATE = Path(__file__).with_name("template")
_SUFFIX = ".in"
"""Of template files, so that no tool takes them for files of Tidegate itself."""
_NEEDED = {"tidegate", "streams", "ingress", "pytest"}
"""Tidegate itself, the packages that it installs, and what the template's tests need."""
_HIDDEN = {"gitignore": ".gitignore"}


def new(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty directory.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Make a folder with an application, its routes and its tests to begin from.

    Example: tidegate new helpdesk
    """
    made = make(directory)
    if as_json:
        typer.echo(json.dumps({"directory": str(directory), "files": made}))
        return
    for name in made:
        typer.echo(f"made {directory / name}")
    typer.echo(_next_steps(directory))


def _next_steps(directory: Path) -> str:
    return "\n".join(
        (
            "Next:",
            f"  cd {shlex.quote(str(directory))}",
            "  python -m pytest",
            "  tidegate dev --app app:app --topology topology.yaml --reload",
        )
    )


def make(directory: Path) -> list[str]:
    """Write the files; returns their names in the directory.

    Raises:
        ConfigError: the directory is not empty or cannot be written, or its name is that of a
            package that the application needs. Nothing was changed unless a write failed.
    """
    name = project_name(directory)
    _require_free(name)
    try:
        _require_empty(directory)
        return [_write(directory, file, name) for file in _files()]
    except OSError as error:
        raise ConfigError(
            f"cannot make {directory}: {error.strerror}; name another directory"
        ) from error


def project_name(directory: Path) -> str:
    """The directory's name as Python packages are named (PEP 503); `app` if nothing is left."""
    words = re.findall(r"[a-z0-9]+", directory.resolve().name.lower())
    return "-".join(words) or "app"


def _require_free(name: str) -> None:
    module = name.replace("-", "_")
    if name in _NEEDED:
        why = f"{name!r} is the name of a package that the application needs"
    elif module in sys.stdlib_module_names:
        why = f"{module!r} is a module of Python's standard library"
    else:
        return
    raise ConfigError(f"{why}, and two of one name hide each other: name it {name}-app, or so")


def _require_empty(directory: Path) -> None:
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        what = "is not empty" if directory.is_dir() else "is a file"
        raise ConfigError(f"{directory} {what}: name a new or empty directory")


def _files() -> Iterator[Path]:
    return iter(sorted(_TEMPLATE.rglob(f"*{_SUFFIX}")))


def _write(directory: Path, file: Path, name: str) -> str:
    inside = file.relative_to(_TEMPLATE)
    plain = inside.name.removesuffix(_SUFFIX)
    target = inside.with_name(_HIDDEN.get(plain, plain))
    (directory / target).parent.mkdir(parents=True, exist_ok=True)
    text = Template(file.read_text(encoding="utf-8")).substitute(name=name)
    (directory / target).write_text(text, encoding="utf-8")
    return str(target)

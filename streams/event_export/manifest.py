"""The manifest of an export: the one file that decides which others count.

A part consists of files that bear its number. It counts once the manifest counts it; files of later
numbers were left by a run that ended before, and are deleted.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from streams.errors import TidegateError

NAME = "_tidegate-export.json"
"""Readers of a directory leave out names that begin so."""
_LOCK = ".tidegate-export.lock"
_FILE = re.compile(r"\.?(\d{8,})-[0-9a-f]{32}\.(?:parquet|jsonl)(?:\.tmp)?")
"""The name of a file of a part, or of one that was not finished."""


class ExportRefused(TidegateError):
    """A directory into which this export must not write."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The selection as it was given, and how far it is written.

    `next` is the first offset of each partition that is not written. `since` and `until` are the
    times of the selection in milliseconds, fixed by the first run.
    """

    asked: dict[str, Any]
    since: int | None
    until: int | None
    parts: int = 0
    events: int = 0
    unreadable: int = 0
    next: dict[str, int] = field(default_factory=dict)


def read(folder: Path) -> Manifest | None:
    """The manifest of a directory, None if nothing was ever exported there.

    Raises:
        ExportRefused: it cannot be read.
    """
    try:
        return Manifest(**orjson.loads((folder / NAME).read_bytes()))
    except FileNotFoundError:
        return None
    except (orjson.JSONDecodeError, TypeError) as error:
        raise ExportRefused(
            f"{folder / NAME} is no manifest of an export ({error}): export into another directory"
        ) from error


def begun(folder: Path, asked: dict[str, Any], since: int | None, until: int | None) -> Manifest:
    """The manifest of a directory that continues the same export, or a first one.

    Raises:
        ExportRefused: it holds another export, or files whose manifest is lost.
    """
    found = read(folder)
    if found is not None:
        require_same(found.asked, asked, folder)
        return found
    if next(folder.glob("day=*"), None) is not None:
        raise ExportRefused(
            f"{folder} has files by day and no {NAME}, which says how far they go: export into "
            "another directory"
        )
    return Manifest(asked, since, until)


def write(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest, durably: the files that it names count from now on."""
    durable(folder / NAME, orjson.dumps(asdict(manifest), option=orjson.OPT_INDENT_2))


def durable(path: Path, content: bytes) -> None:
    """Write a file that is either whole or not there, whatever is killed or loses its power."""
    beside = path.with_name(f".{path.name}.tmp")
    with beside.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    beside.replace(path)
    for folder in (path.parent, path.parent.parent):
        _sync(folder)


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def delete_uncounted(folder: Path, parts: int) -> None:
    """Delete the files of parts that the manifest does not count."""
    for path in folder.glob("day=*/type=*/*"):
        ours = _FILE.fullmatch(path.name)
        if ours is not None and int(ours[1]) >= parts:
            path.unlink()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a directory, so that no second export writes into it.

    Raises:
        ExportRefused: another one does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ExportRefused(
                f"another export writes into {folder}: wait for its end, or export elsewhere"
            ) from None
        yield


def require_same(found: Mapping[str, Any], asked: Mapping[str, Any], folder: Path) -> None:
    """Check that a directory is continued with the selection and format that it has.

    Raises:
        ExportRefused: they differ; it names what.
    """
    different = [name for name in asked if found.get(name) != asked[name]]
    if different:
        has = ", ".join(f"{name} {found.get(name)!r}" for name in different)
        raise ExportRefused(
            f"{folder} holds an export with {has}: give the same options to continue it, or export "
            "into another directory"
        )

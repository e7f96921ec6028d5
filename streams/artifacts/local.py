"""Artifacts in a directory: of one machine, or of a file system that several share."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import structlog

from streams.artifacts.store import UNFINISHED, ArtifactGone, Entry, NotPermitted, StoreUnavailable

log = structlog.get_logger(__name__)

_NOT_FOR_FOLDERS = (errno.EACCES, errno.EBADF, errno.EINVAL, errno.ENOTSUP)
_NOTHING_THERE = (errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG)


class LocalStore:
    """The store in one directory, which is made at its first object, readable by its owner only."""

    blocks = True

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, path: str, parts: Iterable[bytes]) -> None:
        target = self._directory / path
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(prefix=UNFINISHED, dir=target.parent)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.writelines(parts)
                    file.flush()
                    os.fsync(file.fileno())
                Path(name).replace(target)
                for folder in (target.parent, *self._above(target)):
                    _make_durable(folder)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise StoreUnavailable(f"cannot write an artifact: {error}") from error

    def get(self, path: str, most: int | None = None) -> bytes:
        try:
            with (self._directory / path).open("rb") as file:
                return file.read() if most is None else file.read(most)
        except OSError as error:
            if error.errno in _NOTHING_THERE:
                raise ArtifactGone(f"there is no artifact at {path}") from None
            raise StoreUnavailable(f"cannot read an artifact: {error}") from error

    def entries(self, folder: str = "") -> Iterator[Entry]:
        for parent, _, names in os.walk(self._directory / folder, onerror=_passed_over):
            for name in names:
                file = Path(parent, name)
                try:
                    found = file.stat()
                except OSError as error:
                    _passed_over(error)
                    continue
                path = file.relative_to(self._directory).as_posix()
                yield Entry(path, found.st_size, int(found.st_mtime * 1000))

    def remove(self, path: str) -> None:
        target = self._directory / path
        try:
            target.unlink(missing_ok=True)
        except OSError as error:
            if error.errno not in _NOTHING_THERE:
                told = f"cannot remove the artifact at {path}: {error}"
                kind = NotPermitted if isinstance(error, PermissionError) else StoreUnavailable
                raise kind(told) from error
        with suppress(OSError):  # it has others
            for folder in (target.parent, *self._above(target)):
                if folder != self._directory:
                    folder.rmdir()

    def _above(self, target: Path) -> list[Path]:
        """The folders above that of an object, up to the store's own."""
        above = target.parent.parents
        return [each for each in above if each.is_relative_to(self._directory)]


def _make_durable(folder: Path) -> None:
    """Keep the entries of a folder through a loss of power, if its file system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NOT_FOR_FOLDERS:
            raise


def _passed_over(error: OSError) -> None:
    """Say what cannot be read, unless it was removed meanwhile: nothing of it is ever swept."""
    if error.errno not in _NOTHING_THERE:
        log.warning("a part of the store of artifacts cannot be read", reason=str(error))

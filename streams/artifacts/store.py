"""Where artifacts lie: a directory, or a bucket of an object store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from streams.errors import ConfigError, TidegateError

SETTING = "TIDEGATE_ARTIFACTS"
UNFINISHED = ".unfinished-"
"""The names of objects begin so until they are whole; one stays if its writer is killed."""


class ArtifactGone(TidegateError):
    """There is nothing in an artifact's place: it was removed after its retention, or erased."""


class StoreUnavailable(TidegateError):
    """The store does not answer, or refuses; the message has its reason."""


class NotPermitted(StoreUnavailable):
    """The store said at once that it lets us not do this: it may well do the next thing."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What lies in a store: its path, its size in bytes, and when it was written (ms)."""

    path: str
    size: int
    written_at: int

    @property
    def is_unfinished(self) -> bool:
        """Whether it is not whole, so that nothing refers to it."""
        return self.path.rpartition("/")[2].startswith(UNFINISHED)


class ArtifactStore(Protocol):
    """Paths are relative to the store, with `/` between their parts.

    Each method may raise `StoreUnavailable`.
    """

    @property
    def blocks(self) -> bool:
        """Whether a call takes time, so that it has to be made in a thread."""
        ...

    def put(self, path: str, parts: Iterable[bytes]) -> None:
        """Write a whole object, or none; one that is there is replaced."""
        ...

    def get(self, path: str, most: int | None = None) -> bytes:
        """An object, or its first `most` bytes.

        Raises:
            ArtifactGone: there is none.
        """
        ...

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Everything in a folder and below."""
        ...

    def remove(self, path: str) -> None:
        """Remove an object; one that is gone counts as removed."""
        ...


def open_store(location: str | None) -> ArtifactStore:
    """The store that a URL names: `file:///var/lib/artifacts` or `s3://bucket/folder?region=...`.

    Raises:
        ConfigError: there is no URL, or it names no store; the message says what to set.
    """
    if not location:
        raise ConfigError(
            f"there is no place for artifacts: set {SETTING} to file:///a/directory or "
            "s3://bucket/folder, for workers and the operator alike"
        )
    url = urlsplit(location)
    if url.scheme == "file" and url.path.startswith("/") and not url.netloc:
        from streams.artifacts.local import LocalStore

        return LocalStore(Path(url.path))
    if url.scheme == "s3" and url.netloc:
        from streams.artifacts.objects import object_store

        return object_store(location)
    raise ConfigError(
        f"{SETTING} is {url.scheme}://{url.hostname or ''}...: give file:///a/directory or "
        "s3://bucket/folder"
    )

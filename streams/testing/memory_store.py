"""The store of a bench: artifacts lie in memory, sealed as in production."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streams.artifacts.store import ArtifactGone, Entry


class MemoryStore:
    """A store in memory, in the order in which its objects were written first."""

    blocks = False

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}

    def put(self, path: str, parts: Iterable[bytes]) -> None:
        self._objects[path] = b"".join(parts)

    def get(self, path: str, most: int | None = None) -> bytes:
        if path not in self._objects:
            raise ArtifactGone(f"there is no artifact at {path}")
        return self._objects[path][:most]

    def entries(self, folder: str = "") -> Iterator[Entry]:
        for path, content in list(self._objects.items()):
            if path.startswith(folder):
                yield Entry(path, len(content), 0)

    def remove(self, path: str) -> None:
        self._objects.pop(path, None)

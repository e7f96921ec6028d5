"""Avro schemas and their locked ids.

`schemas/<name>.avsc` is the current version, and `schemas/history/<name>.<version>.avsc` are all
versions ever released. `schemas/ids.lock` pins the id of each by the hash of its canonical form, so
that an id never changes its meaning.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from fastavro.schema import parse_schema, to_parsing_canonical_form

from streams.errors import ConfigError
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

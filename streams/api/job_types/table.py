"""Job types as the workers of applications announce them: one row for each application.

An announcement replaces the former one of its application, so a type that is gone from the code is
gone from here. Of several applications with one type, the newest announcement counts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from streams.api.rows.json_values import Json, checked_json, parsed
from streams.api.rows.table import Row, Table
from streams.http.moments import rfc3339
from streams.runtime.processor import Record
from streams.serde.codec import JOB_TYPES
from streams.serde.records import AnnouncedType, JobTypes
from streams.topology.model import Topology

_decoded = lru_cache(maxsize=64)(JOB_TYPES.decode)


@dataclass(frozen=True, slots=True)
class JobTypeRow:
    """A type with its application, that one's version, and when it was announced (ms)."""

    type: AnnouncedType
    app: str
    version: str | None
    at: int


def job_type(connection: sqlite3.Connection, name: str) -> JobTypeRow | None:
    """Return a type as it was announced last; None if no application has it."""
    found = connection.execute(
        "SELECT at, record FROM job_types WHERE instr(types, char(10) || ? || char(10))"
        " ORDER BY at DESC, app LIMIT 1",
        (name,),
    )
    return next((row for at, record in found for row in _rows(at, record, name)), None)


def job_types(connection: sqlite3.Connection) -> list[JobTypeRow]:
    """Return all announced types, in the order of their names."""
    newest: dict[str, JobTypeRow] = {}
    found = connection.execute("SELECT at, record FROM job_types ORDER BY at, app DESC")
    for at, record in found:
        newest |= {row.type.name: row for row in _rows(at, record)}
    return [newest[name] for name in sorted(newest)]


def type_names(connection: sqlite3.Connection) -> set[str]:
    """Return the names of all announced types."""
    found = connection.execute("SELECT types FROM job_types")
    return {name for (names,) in found for name in names.split("\n") if name}


def job_type_json(row: JobTypeRow, topology: Topology) -> Json:
    """Return a type as the API shows it: what the topology sets goes before what its code says."""
    announced, declared = row.type, topology.job_type(row.type.name)
    return {
        "type": announced.name,
        "app": row.app,
        "version": row.version,
        "input_schema": parsed(announced.input_schema),
        "result_schema": parsed(announced.result_schema),
        "retry": {
            "max_attempts": declared.max_attempts or announced.max_attempts,
            "backoff": list(announced.backoff),
        },
        "timeout_seconds": declared.timeout_seconds or announced.timeout_seconds,
        "tools": None if announced.tools is None else list(announced.tools),
        "pool": declared.pool,
        "limits": _limits(announced, declared.pool, topology),
        "announced_at": rfc3339(row.at),
    }


def _limits(announced: AnnouncedType, pool: str, topology: Topology) -> list[str]:
    """Return the topology's limits that count jobs of a type, or calls of the tools it names."""
    values = {
        "global": ("",),
        "pool": (pool,),
        "job_type": (announced.name,),
        "tool": announced.tools or (),
    }
    return [
        limit.name
        for limit in topology.limits
        if any(fnmatchcase(value, limit.match) for value in values.get(limit.scope, ()))
    ]


def _rows(at: int, record: bytes, only: str | None = None) -> Iterator[JobTypeRow]:
    found = _decoded(record)
    for each in found.types:
        if only in (None, each.name):
            yield JobTypeRow(each, found.app, found.version, at)


def _row(record: Record) -> Row:
    found = JOB_TYPES.decode(record.value)
    for schema in _schemas(found):
        checked_json(record.topic, schema.encode())
    names = "".join(f"{each.name}\n" for each in found.types)
    return found.app, record.timestamp, f"\n{names}", record.value


def _schemas(found: JobTypes) -> Iterator[str]:
    for each in found.types:
        yield from filter(None, (each.input_schema, each.result_schema))


TABLE = Table(
    name="job_types",
    topic="jobs.types",
    key="app TEXT",
    columns="at INTEGER NOT NULL, types TEXT NOT NULL, record BLOB NOT NULL",
    row=_row,
    belongs="TRUE",  # it is of the application, not of a tenant
)

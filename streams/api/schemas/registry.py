"""Finds schemas as a registry of them does, and refuses as one (Confluent's API reference).

Ids are those of the records, from `schemas/ids.lock`; nobody can add to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import orjson
from fastavro.schema import SchemaParseException, UnknownType, parse_schema

from streams.api.refusal import Refusal
from streams.serde.schemas import Schema, by_id, digest
from streams.serde.subjects import subjects, versions

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_LONGEST_SCHEMA = 64 * 1024


class RegistryError(Refusal):
    """An error as a registry tells it; the first three digits of its code are the status."""

    content_type: ClassVar[str] = CONTENT_TYPE

    def __init__(self, code: int, message: str) -> None:
        super().__init__(int(str(code)[:3]), "registry", message)
        self.code = code

    def json(self) -> dict[str, Any]:
        return {"error_code": self.code, "message": self.detail}


@dataclass(frozen=True, slots=True)
class Registry:
    """The schemas of the records on these topics."""

    topic_prefix: str
    topics: tuple[str, ...]

    def subjects(self, schema: Schema | None = None) -> list[str]:
        """Return all subjects, or those that have a schema."""
        of = None if schema is None else schema.name
        return subjects(self.topic_prefix, self.topics, of)

    def versions(self, subject: str) -> tuple[Schema, ...]:
        """Return the versions of a subject; refuse with 404 if there is none."""
        found = versions(subject, self.topic_prefix, self.topics)
        if not found:
            raise no_subject(subject)
        return found

    def version(self, subject: str, number: str) -> Schema:
        """Return one version of a subject, by its number or as `latest`."""
        found = self.versions(subject)
        if number in ("latest", "-1"):
            return found[-1]
        if not number.isdecimal() or len(number) > 9 or int(number) < 1:
            told = f"The specified version '{number}' is not a valid version id"
            raise RegistryError(42202, told)
        wanted = [schema for schema in found if schema.version == int(number)]
        if not wanted:
            raise RegistryError(40402, f"Version {number} not found.")
        return wanted[0]

    def same(self, subject: str, body: bytes) -> Schema:
        """Return the version of a subject that is the schema in the body of a call."""
        found = self.versions(subject)
        sought = _digest(body)
        for schema in found:
            if digest(schema.parsed) == sought:
                return schema
        raise RegistryError(40403, "Schema not found")

    def registered(self, subject: str, body: bytes) -> Schema:
        """Return as `same`; what is not there cannot be registered."""
        try:
            return self.same(subject, body)
        except RegistryError as error:
            if error.code == 42201:
                raise
            raise RegistryError(
                42205, "this registry is read-only: a schema comes with a version of Tidegate"
            ) from error


def schema_by_id(text: str) -> Schema:
    """Return the schema of an id; refuse with 404 if there is none."""
    found = by_id().get(int(text)) if text.isdecimal() and len(text) < 10 else None
    if found is None:
        raise RegistryError(40403, f"Schema {text} not found")
    return found


def no_subject(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def part_of(found: Sequence[object], offset: str, limit: str) -> Sequence[object]:
    """Return `limit` entries of a list behind `offset`, all if the limit is negative."""
    try:
        first, most = int(offset), int(limit)
    except ValueError:
        raise RegistryError(404, "HTTP 404 Not Found") from None
    rest = found[max(0, first) :]
    return rest if most < 0 else rest[:most]


def _digest(body: bytes) -> str:
    if len(body) > _LONGEST_SCHEMA:
        raise RegistryError(42201, f"the body is longer than {_LONGEST_SCHEMA} bytes")
    try:
        parsed: Any = parse_schema(orjson.loads(orjson.loads(body)["schema"]))
        return digest(parsed)
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        ArithmeticError,
        SchemaParseException,
        UnknownType,
        RecursionError,
    ) as error:
        raise RegistryError(42201, "Invalid Avro schema") from error

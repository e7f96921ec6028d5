"""Finds unions whose check takes exponential time and memory.

Pydantic tries each member of a union without a discriminator, also once one fits. If two members
hold the union again in a field of the same name, each level of a nest doubles the work: 22 levels,
a text of 200 bytes, take a gigabyte. Nothing can interrupt it, because no other thread runs then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

_DEFS = "#/$defs/"
_ITEMS, _ANY_FIELD = "[]", "*"


def exponential_union(schema: Mapping[str, Any]) -> str | None:
    """The name of a type in a JSON schema that has such a union; None if none has."""
    types = _Types(schema.get("$defs", {}))
    for name, found in types.schemas.items():
        for union in _unions(found):
            if _overlap([types.ways(member, name) for member in union]):
                return name
    return None


def _overlap(ways: list[frozenset[str]]) -> bool:
    """Whether two members of a union lead back to it in one place of the same JSON."""
    count = Counter(way for each in ways for way in each)
    fields = count.total() - count[_ITEMS]
    return max(count.values(), default=0) > 1 or (_ANY_FIELD in count and fields > 1)


class _Types:
    """The types that a schema names, and which of them each holds at any depth."""

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self.schemas = schemas
        self._held = {name: frozenset(_references(found)) for name, found in schemas.items()}

    def ways(self, schema: Any, name: str, seen: frozenset[str] = frozenset()) -> frozenset[str]:
        """Where a schema itself holds the type `name` at any depth: fields, or items of a list."""
        if not isinstance(schema, dict) or (named := str(schema.get("$ref", ""))) in seen:
            return frozenset()
        found = self.schemas.get(named.removeprefix(_DEFS), schema)
        of_any = [found.get(each) for each in ("additionalProperties", "patternProperties")]
        fields = {**found.get("properties", {}), _ANY_FIELD: of_any}
        places = {**fields, _ITEMS: [found.get("items"), found.get("prefixItems")]}
        own = {place for place, held in places.items() if self._leads_to(held, name)}
        inner = [*found.get("anyOf", ()), *found.get("oneOf", ())]
        further = seen | {named} if named else seen
        return frozenset(own).union(*(self.ways(each, name, further) for each in inner))

    def _leads_to(self, schema: Any, name: str) -> bool:
        found = new = frozenset(_references(schema))
        while new and name not in found:
            new = frozenset[str]().union(*(self._held.get(each, ()) for each in new)) - found
            found |= new
        return name in found


def _references(schema: Any) -> Iterator[str]:
    for each in _objects(schema):
        if isinstance(reference := each.get("$ref"), str):
            yield reference.removeprefix(_DEFS)


def _unions(schema: Any) -> Iterator[list[Any]]:
    """Each union whose members are tried in turn; one with a discriminator is a `oneOf`."""
    for each in _objects(schema):
        if isinstance(members := each.get("anyOf"), list):
            yield members


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Each object in a schema, itself among them."""
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value

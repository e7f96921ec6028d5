"""An example of an answer, made from its schema: a value of the right form in each field."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_MOMENT = "2026-11-21T09:00:00.000Z"
_NAMED: dict[str, Any] = {
    "tenant_id": "acme",
    "source": "shop",
    "endpoint_id": "crm",
    "display_name": "Acme",
    "event_type": "order.paid",
    "type": "draft_reply",
    "pool": "default",
    "principal": "token:4f1c",
    "next_cursor": None,
}
"""Values of fields by name, where the schema allows them."""
_BY_TYPE: dict[str, Any] = {
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "null": None,
}
_DEEPEST = 4


def sample(schema: Schema, components: dict[str, Schema], name: str = "", depth: int = 0) -> Any:
    """A value that a schema allows, with all of its fields."""
    if "$ref" in schema:
        schema = components[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        kinds = schema["anyOf"]
        return sample(kinds[-1 if depth > _DEEPEST else 0], components, name, depth)
    if "properties" in schema:
        return {
            field: sample(each, components, field, depth + 1)
            for field, each in schema["properties"].items()
        }
    kinds = schema.get("type", "null")
    kind = kinds if isinstance(kinds, str) else kinds[0]
    if "enum" in schema:
        return schema["enum"][0]
    if kind == "array":
        items = schema.get("items")
        return [sample(items, components, name, depth + 1)] if items and depth < _DEEPEST else []
    if name in _NAMED and (kind == "string" or _NAMED[name] is None):
        return _NAMED[name]
    if kind == "string":
        return _MOMENT if schema.get("format") == "date-time" else f"{name}_1".strip("_")
    return {} if kind == "object" else _BY_TYPE[kind]

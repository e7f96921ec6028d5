"""Schemas of answers: the fields of the objects that functions return, as far as code tells them.

A field of a record has the type that its dataclass declares. What is not told has no type.
"""

from __future__ import annotations

import ast
from typing import Any

from support.api_document.source import (
    Function,
    assigned,
    constant,
    field_of,
    full_name,
    target,
    type_of,
    unpacked,
)

Schema = dict[str, Any]

_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_DEEPEST = 12
_MANY = 3
"""Fields of an object that is a component."""
_MOMENTS = frozenset({"rfc3339", "written"})
_LOOKS = frozenset({"query", "wait_for"})
"""Methods that answer what the function answers which they are given."""


class Shapes:
    """Schemas of what functions return; objects of several fields are components."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}
        self._names: dict[str, str] = {}
        self._known: dict[str, Schema] = {}
        self._depth = 0

    def returned(self, of: Function) -> Schema:
        """The schema of a function's value."""
        if self._depth > _DEEPEST or not of.returns.startswith("Json"):
            return {} if self._depth > _DEEPEST else self._body(of)
        full = f"{of.module}.{of.name}"
        if full not in self._known:
            self._known[full] = {}
            self._known[full] = self._component(of, self._body(of))
        return self._known[full]

    def _component(self, of: Function, body: Schema) -> Schema:
        """A schema, or what refers to it if it has many fields."""
        plain = not_null(body)
        if len(plain.get("properties", ())) < _MANY:
            return body
        name = self._name(of)
        self.components[name] = plain
        refers = {"$ref": f"#/components/schemas/{name}"}
        return refers if plain is body else nullable(refers)

    def _name(self, of: Function) -> str:
        """The name of a component: of `job_json`, `Job`; with its folder's if that is taken."""
        words = of.name.removesuffix("_json").removeprefix("shown_").strip("_").split("_")
        name, full = "".join(word.title() for word in words), f"{of.module}.{of.name}"
        if not name or self._names.setdefault(name, full) != full:
            name = of.module.split(".")[-2].title().replace("_", "") + name
            self._names[name] = full
        return name

    def _body(self, of: Function) -> Schema:
        self._depth += 1
        values = [
            node.value
            for node in _own(of.node)
            if isinstance(node, ast.Return) and node.value is not None
        ]
        found = either([self.of(of, each) for each in values if not _is_none(each)])
        self._depth -= 1
        return nullable(found) if any(map(_is_none, values)) else found

    def of(self, where: Function, value: ast.expr) -> Schema:
        """The schema of an expression within a function."""
        match value:
            case ast.Await(value=inner):
                return self.of(where, inner)
            case ast.Constant(value=constant):
                return {"type": _TYPES[type(constant).__name__]} if constant is not None else {}
            case ast.JoinedStr():
                return {"type": "string"}
            case ast.Compare():
                return {"type": "boolean"}
            case ast.Dict():
                return self._object(where, value)
            case ast.List(elts=[]) | ast.Tuple(elts=[]):
                return {"type": "array"}
            case ast.ListComp(elt=item):
                return {"type": "array", "items": self.of(where, item)}
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self.both(self.of(where, left), self.of(where, right))
            case ast.IfExp(body=one, orelse=other):
                return self._choice(where, one, other)
            case ast.Call():
                return self._called(where, value)
            case ast.Name(id=name):
                return either(self._assigned(where, name))
            case ast.Attribute(value=owner, attr=attr):
                return _field(type_of(where, owner), attr)
        return {}

    def _assigned(self, where: Function, name: str) -> list[Schema]:
        found = [self.of(where, each) for each in assigned(where, name)]
        for call, place in unpacked(where, name):
            called = target(where, call.func)
            returned = () if called is None else _own(called.node)
            found += [
                self.of(called, node.value.elts[place])
                for node in returned
                if called and isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)
            ]
        return found

    def _choice(self, where: Function, one: ast.expr, other: ast.expr) -> Schema:
        if _is_none(one) or _is_none(other):
            return nullable(self.of(where, other if _is_none(one) else one))
        return either([self.of(where, one), self.of(where, other)])

    def _object(self, where: Function, value: ast.Dict) -> Schema:
        made: Schema = {"type": "object", "properties": {}, "required": []}
        for key, each in zip(value.keys, value.values, strict=True):
            if key is None:
                made = self.both(made, self.of(where, each))
            elif isinstance(key, ast.Constant):
                one = {str(key.value): self.of(where, each)}
                made = self.both(made, {"properties": one, "required": list(one)})
            else:
                return {"type": "object"}
        return made

    def both(self, one: Schema, other: Schema) -> Schema:
        """An object with the fields of both; the second one's win."""
        one, other = self._resolved(one), self._resolved(other)
        return {
            "type": "object",
            "properties": {**one.get("properties", {}), **other.get("properties", {})},
            "required": sorted({*one.get("required", ()), *other.get("required", ())}),
        }

    def _resolved(self, schema: Schema) -> Schema:
        schema = not_null(schema)
        name = schema.get("$ref", "").rpartition("/")[2]
        return self.components[name] if name else schema

    def _called(self, where: Function, call: ast.Call) -> Schema:
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        if name in _LOOKS and call.args:
            return either([self._looked(where, each) for each in call.args])
        if name in ("list", "tuple") and len(call.args) == 1:
            return {"type": "array", **self._items(where, call.args[0])}
        called = target(where, call.func)
        if called is None:
            return {}
        if called.name in _MOMENTS:
            maybe: Any = ["string", "null"] if "None" in called.returns else "string"
            return {"type": maybe, "format": "date-time"}
        declared = declared_type(called.returns, called.module)
        return declared or self.returned(called)

    def _looked(self, where: Function, look: ast.expr) -> Schema:
        if isinstance(look, ast.Lambda):
            return self.of(where, look.body)
        found = target(where, look)
        return {} if found is None else self.returned(found)

    def _items(self, where: Function, value: ast.expr) -> Schema:
        match value:
            case ast.Call(func=ast.Name(id="map"), args=[by, *_]):
                found = target(where, by)
                return {} if found is None else {"items": self.returned(found)}
            case ast.GeneratorExp(elt=item) | ast.ListComp(elt=item):
                return {"items": self.of(where, item)}
        return {}


def declared_type(annotation: str, where: str = "") -> Schema:
    """The schema of a simple type or of a choice of texts, None beside it or not."""
    names = [part.strip() for part in annotation.split("|")]
    known = [found for name in names if (found := _simple(name, where))]
    if len(known) == 1 and len(names) == 1:
        return known[0]
    if len(known) == 1 and len(names) == 2 and "None" in names:
        return nullable(known[0])
    return {}


def _simple(name: str, where: str) -> Schema:
    if name in _TYPES:
        return {"type": _TYPES[name]}
    if name.startswith("tuple[") and name.endswith(", ...]"):
        items = _simple(name.removeprefix("tuple[").removesuffix(", ...]"), where)
        return {"type": "array", "items": items} if items else {"type": "array"}
    full = full_name(where, ast.Name(name)) if name.isidentifier() and where else None
    match constant(full) if full else None:
        case ast.Subscript(value=ast.Name(id="Literal"), slice=ast.Tuple(elts=values)):
            texts = [each.value for each in values if isinstance(each, ast.Constant)]
            return {"type": "string", "enum": texts} if len(texts) == len(values) else {}
    return {}


def either(found: list[Schema]) -> Schema:
    """What holds of each of several values."""
    different = [each for n, each in enumerate(found) if each not in found[:n]]
    if len(different) == 1:
        return different[0]
    return {"anyOf": different} if different and all(different) else {}


def nullable(schema: Schema) -> Schema:
    """A schema that allows null, too."""
    if not schema:
        return {}
    if "null" in schema.get("type", ()) or {"type": "null"} in schema.get("anyOf", ()):
        return schema
    if isinstance(schema.get("type"), str) and not {"properties", "enum"} & schema.keys():
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def not_null(schema: Schema) -> Schema:
    """A schema without the null that it allows."""
    match schema:
        case {"anyOf": [one, {"type": "null"}]}:
            return dict(one)
    return schema


def _field(owner: str | None, name: str) -> Schema:
    found = None if owner is None else field_of(owner, name)
    return {} if found is None else declared_type(found[1], found[0])


def _own(node: ast.AST) -> list[ast.AST]:
    """A function's nodes, without those of functions inside it."""
    found = list[ast.AST]()
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            found += [child, *_own(child)]
    return found


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None

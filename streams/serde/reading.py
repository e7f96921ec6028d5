"""Reads Avro's binary encoding of our records, by one function for each record schema.

The function's text is generated from the schema and compiled once, as `writing` does. fastavro
finds out anew for each field of each record what its type is, and takes three times as long. The
data are the same (Avro 1.11, "Binary Encoding").

These functions accept only what our own writer makes. So bytes that they refuse may still be a
record, such as one whose arrays come in several blocks: let fastavro judge them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Sequence
from typing import Any

Read = Callable[[bytes, int], tuple[Any, int]]
"""From bytes and the place of a value in them to the value and the place behind it. It raises one
of `REFUSALS`, or returns a place beyond the end of the bytes, if no value of ours stands there."""

REFUSALS = (ValueError, LookupError, struct.error)
_READ = {
    "string": """\
size = data[at]; at += 1
if size & 129: size, at = length(data, at, size)
at, {0} = at + (size >> 1), data[at:at + (size >> 1)].decode()
""",
    "bytes": """\
size = data[at]; at += 1
if size & 129: size, at = length(data, at, size)
at, {0} = at + (size >> 1), data[at:at + (size >> 1)]
""",
    "int": """\
{0} = data[at]; at += 1
if {0} > 127: {0}, at = number(data, at, {0})
{0} = {0} >> 1 ^ -({0} & 1)
""",
    "double": "({0},) = double(data, at); at += 8\n",
    "boolean": "{0} = booleans[data[at]]; at += 1\n",
}
_READ["long"] = _READ["int"]


def reader(schema: Any, wanted: Collection[str] | None = None) -> Read:
    """Return the function that reads a record of a schema, as fastavro returns it.

    A record that is one of several in a union comes as a pair of its name and its fields. With
    `wanted`, the record has these fields alone, and the others are checked.
    """
    return _record(schema, {}, wanted)


def _record(schema: Any, known: dict[str, Read], wanted: Collection[str] | None = None) -> Read:
    """Return the function of a record schema; `known` has those of the named ones before it."""
    scope: dict[str, Any] = dict(_SCOPE)
    body, items = "", ""
    for number, field in enumerate(schema["fields"]):
        body += _value(field["type"], f"f{number}", scope, known)
        if wanted is None or field["name"] in wanted:
            items += f"{field['name']!r}: f{number}, "
    made = _compiled(f"{body}return {{{items}}}, at\n", scope)
    known[schema["name"]] = made
    return made


def _compiled(body: str, scope: dict[str, Any]) -> Read:
    # The text consists only of the names of our own schemas' fields.
    exec(f"def read(data, at):\n{_indented(body)}", scope)  # noqa: S102
    made: Read = scope["read"]
    return made


def _value(type_: Any, name: str, scope: dict[str, Any], known: dict[str, Read]) -> str:
    """Return the statements that read a value into the variable `name`."""
    if isinstance(type_, list):
        return _union(type_, name, scope, known)
    kind = type_ if isinstance(type_, str) else type_["type"]
    if kind in _READ:
        return _READ[kind].format(name)
    if kind == "fixed":
        return f"{name} = data[at:at + {type_['size']}]; at += {type_['size']}\n"
    if kind in ("array", "map"):
        inner = type_["items" if kind == "array" else "values"]
        read = _function(inner, known)
        empty = "[]" if kind == "array" else "{}"
        return (
            f"if data[at]: {name}, at = {kind}({_named(read, scope)}, data, at)\n"
            f"else: {name} = {empty}; at += 1\n"
        )
    return _call(known.get(kind) or _record(type_, known), name, scope)


def _union(options: Sequence[Any], name: str, scope: dict[str, Any], known: dict[str, Read]) -> str:
    """Return the statements for an optional value, or for one of several records."""
    if "null" in options:
        null = options.index("null")
        (other,) = (n for n in range(len(options)) if n != null)
        some = _value(options[other], name, scope, known)
        return (
            f"if data[at] == {2 * null}: {name} = None; at += 1\n"
            f"elif data[at] == {2 * other}:\n    at += 1\n{_indented(some)}"
            "else: raise ValueError('no such branch')\n"
        )
    variants = [(option["name"], _record(option, known)) for option in options]

    def variant(data: bytes, at: int) -> tuple[Any, int]:
        index, odd = divmod(data[at], 2)
        if odd:
            raise ValueError("no such branch")
        name, read = variants[index]
        value, at = read(data, at + 1)
        return (name, value), at

    return _call(variant, name, scope)


def _function(type_: Any, known: dict[str, Read]) -> Read:
    """Return the function that reads one value of a type."""
    scope: dict[str, Any] = dict(_SCOPE)
    return _compiled(_value(type_, "value", scope, known) + "return value, at\n", scope)


def _call(function: Read, name: str, scope: dict[str, Any]) -> str:
    return f"{name}, at = {_named(function, scope)}(data, at)\n"


def _named(function: Read, scope: dict[str, Any]) -> str:
    name = f"read{len(scope)}"
    scope[name] = function
    return name


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def _number(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Return the rest of a number of several bytes, still with its sign in the last bit."""
    found, shift = first & 127, 7
    while (byte := data[at]) > 127:
        found |= (byte & 127) << shift
        shift += 7
        at += 1
    found |= byte << shift
    if found >> 64:
        raise ValueError("more than 64 bits")
    return found, at + 1


def _length(data: bytes, at: int, first: int) -> tuple[int, int]:
    size, at = (first, at) if first < 128 else _number(data, at, first)
    if size & 1:
        raise ValueError("a negative length")
    return size, at


def _array(read: Read, data: bytes, at: int) -> tuple[list[Any], int]:
    """Return the items of a single block, which is not empty."""
    count, at = _length(data, at + 1, data[at])
    items = []
    for _ in range(count >> 1):
        item, at = read(data, at)
        items.append(item)
    return items, _end(data, at)


def _map(read: Read, data: bytes, at: int) -> tuple[dict[str, Any], int]:
    """Return the values by key of a single block, which is not empty."""
    count, at = _length(data, at + 1, data[at])
    items = {}
    for _ in range(count >> 1):
        size, at = _length(data, at + 1, data[at])
        key, at = data[at : at + (size >> 1)].decode(), at + (size >> 1)
        items[key], at = read(data, at)
    return items, _end(data, at)


def _end(data: bytes, at: int) -> int:
    if data[at]:
        raise ValueError("another block")
    return at + 1


_SCOPE = {
    "number": _number,
    "length": _length,
    "double": struct.Struct("<d").unpack_from,
    "booleans": (False, True),
    "array": _array,
    "map": _map,
}

"""Avro's binary encoding of our records, by one expression for each record schema.

The expression's text is generated from the schema and compiled once, as `conversion` does. fastavro
finds out anew for each value which branch of its union it belongs to, and takes four times as long.
The bytes are the same (Avro 1.11, "Binary Encoding").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

Write = Callable[[Any], bytes]

_BITS = 1 << 63
_SHORT = 8192
_DOUBLE = Struct("<d").pack
_SIMPLE = {
    "string": "text({})",
    "bytes": "blob({})",
    "int": "long({})",
    "long": "long({})",
    "double": "double({})",
    "boolean": "(b'\\1' if {} else b'\\0')",
}


def writer(schema: Any) -> Write:
    """A function from an instance of a record's class to its bytes, without the frame."""
    return _record(schema, {})


def _record(schema: Any, known: dict[str, Write]) -> Write:
    """The function of a record schema; `known` has those of the named ones before it."""
    scope: dict[str, Any] = dict(_SCOPE)
    fields = [_field(f["type"], f"value.{f['name']}", scope, known) for f in schema["fields"]]
    # The text consists only of the names of our own schemas' fields.
    made: Write = eval(f"lambda value: join(({' '.join(f'{f},' for f in fields)}))", scope)  # noqa: S307
    known[schema["name"]] = made
    return made


def _field(type_: Any, value: str, scope: dict[str, Any], known: dict[str, Write]) -> str:
    """The expression that turns the expression `value` into bytes; `scope` gets its names."""
    if isinstance(type_, list):
        return _union(type_, value, scope, known)
    kind = type_ if isinstance(type_, str) else type_["type"]
    if kind in _SIMPLE:
        return _SIMPLE[kind].format(value)
    if kind == "array":
        item = _field(type_["items"], "each", scope, known)
        return f"block([{item} for each in {value}])"
    if kind == "map":
        item = _field(type_["values"], "each", scope, known)
        return f"block([text(key) + {item} for key, each in {value}.items()])"
    if kind == "fixed":
        return f"fixed({value}, {type_['size']})"
    return _call(known.get(kind) or _record(type_, known), value, scope)


def _union(
    options: Sequence[Any], value: str, scope: dict[str, Any], known: dict[str, Write]
) -> str:
    """An optional value, or one of several records, which their classes' names tell apart."""
    if "null" in options:
        null = options.index("null")
        (other,) = (n for n in range(len(options)) if n != null)
        some = _field(options[other], value, scope, known)
        return f"({_long(null)!r} if {value} is None else {_long(other)!r} + {some})"
    records = {o["name"].rpartition(".")[2]: _record(o, known) for o in options}
    variants = {name: (_long(n), write) for n, (name, write) in enumerate(records.items())}

    def variant(value: Any) -> bytes:
        index, write = variants[type(value).__name__]
        return index + write(value)

    return _call(variant, value, scope)


def _call(function: Write, value: str, scope: dict[str, Any]) -> str:
    name = f"write{len(scope)}"
    scope[name] = function
    return f"{name}({value})"


def _zigzag(number: int) -> bytes:
    if not -_BITS <= number < _BITS:
        raise OverflowError(f"{number} does not fit into 64 bits")
    rest, out = (number << 1) ^ (number >> 63), bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_NUMBERS = tuple(map(_zigzag, range(_SHORT)))


def _long(number: int) -> bytes:
    return _NUMBERS[number] if 0 <= number < _SHORT else _zigzag(number)


def _blob(data: bytes) -> bytes:
    return _long(len(data)) + data


def _text(text: str) -> bytes:
    data = text.encode()
    size = len(data)
    return (_NUMBERS[size] if size < _SHORT else _zigzag(size)) + data


def _fixed(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes instead of {size}")
    return data


def _block(items: Sequence[bytes]) -> bytes:
    return b"".join((_long(len(items)), *items, b"\0")) if items else b"\0"


_SCOPE = {
    "join": b"".join,
    "text": _text,
    "blob": _blob,
    "long": _long,
    "double": _DOUBLE,
    "fixed": _fixed,
    "block": _block,
}

"""From Avro's binary encoding to our records, by one function for each record schema.

The function's text is generated from the schema and compiled once. It reads only what was written
under that very schema; fastavro resolves the others. A job takes two thirds of the time of reading
it with fastavro and building the record afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from struct import Struct
from typing import Any, get_args, get_type_hints

Read = Callable[[bytes, int], tuple[Any, int]]
"""Takes the bytes and where a value begins; returns the value, and where the next one begins.

Any exception says that the bytes are broken. A value that is cut may be found only by its end,
which then lies behind that of the bytes.
"""

_BITS = 64
_CALL = "    v{n}, at = read{n}(data, at)\n"
_TEXT = """\
    size = data[at]
    if size & 129:  # of two bytes, or negative
        v{n}, at = text(data, at)
    else:
        end = at + 1 + (size >> 1)
        v{n}, at = str(data[at + 1 : end], "utf-8"), end
"""
_OPTION = """\
    if data[at] == 0:
        v{n}, at = None, at + 1
    else:
        v{n}, at = read{n}(data, at)
"""
_LINES = {
    "string": _TEXT,
    **dict.fromkeys((str(["null", o]) for o in ("string", "long", "bytes", "double")), _OPTION),
}
"""The lines of the most frequent types, which save a call; `n` is the field's number."""
_DOUBLE = Struct("<d").unpack_from


def reader(schema: Any, cls: type) -> Read:
    """A function from the bytes of a record, without the frame, to an instance of its class."""
    return _record(schema, {**_classes(cls), _name(schema): cls}, {})


def _name(schema: Any) -> str:
    name: str = schema["name"].rpartition(".")[2]
    return name


def _classes(hint: Any) -> dict[str, Any]:
    """The classes of a record and of all records in it, by their names."""
    found: dict[str, Any] = {}
    if is_dataclass(hint):
        found[hint.__name__] = hint  # type: ignore[union-attr]
        inner: Sequence[Any] = list(get_type_hints(hint).values())
    else:
        inner = get_args(hint)
    for each in inner:
        found |= _classes(each)
    return found


def _record(schema: Any, classes: Mapping[str, Any], known: dict[str, Read]) -> Read:
    """The function of a record schema; `known` has those of the named ones before it."""
    scope: dict[str, Any] = {"cls": classes[_name(schema)]}
    scope["text"] = _text
    lines = []
    for number, field in enumerate(schema["fields"]):
        scope[f"read{number}"] = _value(field["type"], classes, known)
        lines.append(_LINES.get(str(field["type"]), _CALL).format(n=number))
    given = ", ".join(f"{f['name']}=v{n}" for n, f in enumerate(schema["fields"]))
    # The text consists only of the names of our own schemas' fields.
    exec(f"def read(data, at):\n{''.join(lines)}    return cls({given}), at", scope)  # noqa: S102
    made: Read = scope["read"]
    known[schema["name"]] = made
    return made


def _value(type_: Any, classes: Mapping[str, Any], known: dict[str, Read]) -> Read:
    if isinstance(type_, list):
        return _union([None if o == "null" else _value(o, classes, known) for o in type_])
    kind = type_ if isinstance(type_, str) else type_["type"]
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind == "array":
        return _array(_value(type_["items"], classes, known))
    if kind == "map":
        return _map(_value(type_["values"], classes, known))
    if kind == "fixed":
        return _fixed(type_["size"])
    return known.get(kind) or _record(type_, classes, known)


def _long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    number, shift = byte & 127, 7
    while byte > 127:
        if shift > _BITS:
            raise ValueError("a number of more than 64 bits")
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
    if number >> _BITS:
        raise ValueError("a number of more than 64 bits")
    return (number >> 1) ^ -(number & 1), at


def _blob(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    if size < 0:
        raise ValueError("a negative length")
    return data[at : at + size], at + size


def _text(data: bytes, at: int) -> tuple[str, int]:
    size = data[at]
    if size > 127 or size & 1:
        blob, end = _blob(data, at)
        return blob.decode(), end
    end = at + 1 + (size >> 1)
    return data[at + 1 : end].decode(), end


def _double(data: bytes, at: int) -> tuple[float, int]:
    return _DOUBLE(data, at)[0], at + 8


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    return data[at] != 0, at + 1


def _fixed(size: int) -> Read:
    return lambda data, at: (data[at : at + size], at + size)


def _array(read_item: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        items = []
        count, at = _count(data, at)
        while count:
            for _ in range(count):
                item, at = read_item(data, at)
                items.append(item)
            count, at = _count(data, at)
        return tuple(items), at

    return read


def _map(read_item: Read) -> Read:
    read_pairs = _array(lambda data, at: _pair(read_item, data, at))

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        pairs, at = read_pairs(data, at)
        return dict(pairs), at

    return read


def _pair(read_item: Read, data: bytes, at: int) -> tuple[tuple[str, Any], int]:
    key, at = _text(data, at)
    item, at = read_item(data, at)
    return (key, item), at


def _count(data: bytes, at: int) -> tuple[int, int]:
    """How many items a block has; other writers put its size behind a negative count."""
    count, at = _long(data, at)
    if count < 0:
        _, at = _long(data, at)
    return abs(count), at


def _union(options: Sequence[Read | None]) -> Read:
    """`options` are the branches in order; None: the branch `null`."""
    branches = {number << 1: read for number, read in enumerate(options)}

    def read(data: bytes, at: int) -> tuple[Any, int]:
        branch = branches[data[at]]
        return (None, at + 1) if branch is None else branch(data, at + 1)

    return read


_SIMPLE: dict[str, Read] = {
    "string": _text,
    "bytes": _blob,
    "int": _long,
    "long": _long,
    "double": _double,
    "boolean": _boolean,
}

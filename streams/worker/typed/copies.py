"""Finds JSON that does not fit its type, and whose errors would take too much memory.

Pydantic copies the value at fault into each error about JSON: an object in which a hundred fields
of the members of a union are missing is copied a hundred times. In errors about Python's objects it
only refers to them, so a large document is tried in that form first.
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

_LARGE_CHARS = 64_000
_MOST_BYTES = 100_000_000
_VALUE_BYTES = 32


def costly_faults(
    adapter: TypeAdapter[Any], document: object, text: str, most: int
) -> ValidationError | None:
    """The faults of a document, if those of its JSON would take too much memory; else None.

    `text` is the document's JSON. More than `most` faults are too many to be looked at. Fewer, or
    those of small values, say nothing here: an application's own type may take only JSON.
    """
    if len(text) < _LARGE_CHARS:
        return None
    try:
        adapter.validate_python(document, strict=False)
    except ValidationError as error:
        return error if error.error_count() > most or _copies_much(error) else None
    return None


def _copies_much(error: ValidationError) -> bool:
    """Whether the values at fault have too many bytes, each as often as an error has it."""
    found, sizes = 0, dict[int, int]()
    for each in error.errors(include_url=False, include_context=False):
        value = each["input"]
        if id(value) not in sizes:
            sizes[id(value)] = _bytes(value)
        found += sizes[id(value)]
        if found > _MOST_BYTES:
            return True
    return False


def _bytes(value: object) -> int:
    """About how many bytes a copy of a value takes."""
    found, waiting = 0, [value]
    while waiting:
        found += _VALUE_BYTES
        match waiting.pop():
            case dict() as members:
                found += sum(map(len, members))
                waiting.extend(members.values())
            case list() as items:
                waiting.extend(items)
            case str() as held:
                found += len(held)
    return found

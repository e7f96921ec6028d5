"""A log line of a handler, as readers of its job get it: bounded JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from streams.redaction.log_values import opened
from streams.worker.handler.run_result import describe

if TYPE_CHECKING:
    from streams.redaction.redaction import Redaction

_MESSAGE_CHARS = 2_000
_FIELDS_CHARS = 4_000
_MOST_BYTES = 65_536
"""Larger fields are not searched for secrets, which would hold up other runs, and not shown."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line with the fields that its call gave it."""

    level: str
    message: str
    fields: Mapping[str, Any] = field(default_factory=dict)


def written(line: Line, redaction: Redaction) -> str:
    """The line as JSON, without secrets.

    What is no JSON stands as its `repr`, and what is too long is cut, once no secret is in it.
    """

    def told(value: object) -> object:
        if isinstance(value, BaseException):
            return describe(value, redaction.text)
        plain = opened(value)
        return shown(value) if plain is value else plain

    def shown(value: object) -> str:
        return redaction.head(_encodable(_repr(value)))[:_MESSAGE_CHARS]

    try:
        fields = orjson.dumps(dict(line.fields), default=told, option=orjson.OPT_NON_STR_KEYS)
        clean = redaction.json(fields.decode()) if len(fields) <= _MOST_BYTES else _left_out(fields)
    except TypeError:
        clean = orjson.dumps({"fields": shown(_members(line.fields, redaction))}).decode()
    if len(clean) > _FIELDS_CHARS:
        clean = _left_out(clean)
    message = redaction.head(_encodable(line.message))[:_MESSAGE_CHARS]
    head = orjson.dumps({"level": line.level, "message": message})
    return f'{head[:-1].decode()},"fields":{clean}}}'


def _left_out(fields: str | bytes) -> str:
    return orjson.dumps({"left_out": f"fields of {len(fields):,} characters"}).decode()


def _members(fields: Mapping[str, Any], redaction: Redaction) -> object:
    """Fields that are no JSON, without those that are secret."""
    try:
        return redaction.members(dict(fields))
    except RecursionError:  # one of them contains itself
        return "values that are nested too deep"


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return f"<a {type(value).__name__} that has no repr>"


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()

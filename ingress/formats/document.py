"""A signed body as a JSON document, bounded in what it takes to read it."""

from __future__ import annotations

import re
from typing import Any

import orjson

from streams.errors import MalformedBody, Misfit

MOST_VALUES = 1_000_000
"""To read a document holds everybody up, and a value takes many times the bytes that name it: a
body of 25 MiB can name ten times as many."""
_SEPARATOR = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|([,\[{])', re.DOTALL)


def json_document(body: bytes) -> Any:
    """The document (RFC 8259: UTF-8, no NaN).

    Raises:
        MalformedBody: it is not JSON, or nested too deep.
        Misfit: it has more than `MOST_VALUES` values.
    """
    if len(body) > MOST_VALUES and _dense(body):
        raise Misfit("too_many_values", f"the body has more than {MOST_VALUES:,} values")
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise MalformedBody(f"the body is not JSON: {error.msg} ({where})") from error


def _dense(body: bytes) -> bool:
    """Whether there may be more values: each is the first in its brackets or follows a comma."""
    if sum(map(body.count, (b",", b"[", b"{"))) < MOST_VALUES:
        return False
    found = 0  # those in texts separate nothing
    for match in _SEPARATOR.finditer(body):
        found += match.lastindex is not None
        if found >= MOST_VALUES:
            return True
    return False

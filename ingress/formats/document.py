"""Parses a signed body as a JSON document, at bounded cost."""

from __future__ import annotations

import json
import re
from typing import Any

from ingress.formats.form import form_document
from streams import user_json
from streams.errors import MalformedBody, Misfit

MOST_VALUES = 1_000_000
"""The limit of a document's values. Parsing blocks every other request, and a value takes many
times the memory of its text; a body of 25 MiB can hold ten times as many values."""
_SEPARATOR = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|([,\[{])', re.DOTALL)


def json_document(body: bytes) -> Any:
    """The document (RFC 8259: UTF-8, no NaN); its integers are exact.

    Raises:
        MalformedBody: the body is not JSON, or is nested too deep.
        Misfit: the body has more than `MOST_VALUES` values.
    """
    if len(body) > MOST_VALUES and _dense(body):
        raise Misfit("too_many_values", f"the body has more than {MOST_VALUES:,} values")
    try:
        return user_json.read(body)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise MalformedBody(f"the body is not JSON: {error.msg} ({where})") from error


def begins_as_json(body: bytes) -> bool:
    """Whether a body is a JSON object or array, and thus no form, by its first character."""
    return body.lstrip()[:1] in {b"{", b"["}


def carried_json(body: bytes) -> Any:
    """The document of a body that is JSON, or a form whose field `payload` is JSON.

    Raises:
        MalformedBody: the body is neither, or is nested too deep.
        Misfit: the document has more than `MOST_VALUES` values.
    """
    try:
        return json_document(body)
    except MalformedBody:
        payload = None if begins_as_json(body) else form_document(body).get("payload")
        if not isinstance(payload, str):
            raise
    return json_document(payload.encode())


def _dense(body: bytes) -> bool:
    """Whether there may be too many values: each follows a comma or an opening bracket."""
    if sum(map(body.count, (b",", b"[", b"{"))) < MOST_VALUES:
        return False
    found = 0  # brackets and commas in texts do not count
    for match in _SEPARATOR.finditer(body):
        found += match.lastindex is not None
        if found >= MOST_VALUES:
            return True
    return False

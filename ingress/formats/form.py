"""Bodies of HTML forms: `application/x-www-form-urlencoded` (WHATWG URL standard, section 5.1)."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from streams.errors import MalformedBody

MAX_FIELDS = 1000
MAX_ESCAPES = 100_000
"""Each escaped byte becomes an object of its own while it is decoded. A body full of them would
take a hundred times its size."""


def form_fields(body: bytes) -> list[tuple[bytes, bytes]]:
    """The decoded names and values, in the order of the body.

    Raises:
        MalformedBody: the body has more than 1,000 fields, or more than 100,000 escaped bytes.
    """
    if body.count(b"&") >= MAX_FIELDS:
        raise MalformedBody(f"the form has more than {MAX_FIELDS} fields")
    if body.count(b"%") > MAX_ESCAPES:
        raise MalformedBody(f"the form has more than {MAX_ESCAPES} escaped bytes")
    pairs = (pair.partition(b"=") for pair in body.split(b"&") if pair)
    return [(_plain(name), _plain(value)) for name, _, value in pairs]


def form_document(body: bytes) -> dict[str, str | list[str]]:
    """A form as a document; a repeated field becomes the list of its values.

    Raises:
        MalformedBody: the body is not UTF-8, or has more than 1,000 fields.
    """
    found: dict[str, list[str]] = {}
    try:
        for name, value in form_fields(body):
            found.setdefault(name.decode(), []).append(value.decode())
    except UnicodeDecodeError:
        raise MalformedBody("the form is not in UTF-8") from None
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _plain(text: bytes) -> bytes:
    return unquote_to_bytes(text.replace(b"+", b" "))

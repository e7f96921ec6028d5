"""Names and values that must outlive their run: text that can be kept, JSON of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from streams import user_json
from streams.errors import PermanentError
from streams.serde.sizes import MAX_VALUE_BYTES


def to_json(value: object, what: str) -> str:
    """Return the value as JSON text.

    Raises:
        PermanentError: it is not JSON, or too large; the message names it by `what`.
    """
    text = json_of(value, what)
    check_size(text, what)
    return text.decode()


def json_of(value: object, what: str) -> bytes:
    """The value as JSON of any size.

    Raises:
        PermanentError: it is not JSON; the message names it by `what`.
    """
    with refused(what):
        return user_json.write(value)


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Refuse a value that cannot be written.

    Raises:
        PermanentError: it is not JSON; the message names it by `what`.
    """
    try:
        yield
    except TypeError as error:
        raise PermanentError(
            f"{what} is not JSON ({error}): return plain dicts, lists, strings and numbers"
        ) from error


def check_size(text: bytes, what: str) -> None:
    """Check that JSON fits a record.

    Raises:
        PermanentError: it is too large; the message names it by `what`.
    """
    if len(text) > MAX_VALUE_BYTES:
        raise PermanentError(
            f"{what} has {len(text):,} bytes of JSON, more than {MAX_VALUE_BYTES:,}: "
            "store it elsewhere and return where it lies"
        )


def from_json(text: str | None) -> Any:
    """The value in JSON text; None for no text."""
    return user_json.read(text) if text else None


def digest(arguments: Mapping[str, object], what: str) -> bytes:
    """SHA-256 of the arguments' canonical JSON: equal exactly for equal arguments.

    Raises:
        PermanentError: an argument is not JSON; the message names it.
    """
    for name, value in arguments.items():
        try:
            user_json.write(value)
        except TypeError as error:
            raise PermanentError(
                f"{what}: argument {name!r} is not JSON ({error}): pass plain values, "
                "so that a second run can be told from another call"
            ) from error
    return user_json.digest(dict(arguments))


def is_label(name: object, most: int) -> bool:
    """Whether it is a string of 1 to `most` characters, without NUL, that UTF-8 can encode.

    A NUL separates the parts of the stores' keys. A lone surrogate cannot be sent.
    """
    if not isinstance(name, str) or not 0 < len(name) <= most or "\0" in name:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True

"""Checks the names that a handler gives to its steps and effects."""

from __future__ import annotations


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

"""Says which values SQLite can store, and which errors are the fault of one record.

Whoever writes to a topic chooses the content of its records. None of it may stop the read model: an
error that content can cause makes the record poison, and any other error is tried again.
"""

from __future__ import annotations

import sqlite3

from streams.errors import DecodeError
from streams.operator.resources.table import Row
from streams.runtime.processor import Record

OF_A_RECORD = (
    ValueError,
    ArithmeticError,
    LookupError,
    TypeError,
    RecursionError,
    sqlite3.DataError,
    sqlite3.IntegrityError,
)
"""Errors that the content of a record can cause: in its fold, or in SQLite when it is written.

`UnicodeError` is a `ValueError`, `OverflowError` an `ArithmeticError`."""

_LEAST, _MOST = -(2**63), 2**63 - 1
"""An SQLite integer has 64 bits (sqlite.org/datatype3.html)."""


def require_storable(row: Row) -> None:
    """Check that SQLite takes all values of a row.

    Raises:
        ValueError: an integer has more than 64 bits, or a text is not Unicode (a lone surrogate).
    """
    for value in row:
        if isinstance(value, int) and not _LEAST <= value <= _MOST:
            raise ValueError("an integer has more than 64 bits")
        if isinstance(value, str):
            value.encode()


def unusable(record: Record, error: Exception) -> DecodeError:
    """Return what makes a record poison that is not usable as a row."""
    return DecodeError(f"{record.topic}: {type(error).__name__}: {error}")

"""Counts events by minute and hour with Quix Streams and its state, exactly once.

It runs in an environment of its own. Arguments are name=value, as of `quix.py`, without `output`;
`subjects` is `true` if rows have the sketch of their subjects. Rows are in the state of the
record's key, the tenant, so that nothing has to be sent to another partition first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from quixstreams import State

from contenders.event_rows import WINDOWS_MS, Hours, counted, decoder, row_key
from contenders.quix import application

KEPT = timedelta(days=7)


def main() -> None:
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    app, hours = application(given), Hours()
    source = app.topic(given["input"], value_deserializer="bytes", key_deserializer="bytes")
    count = each(given["subjects"] == "true", hours)
    app.dataframe(source).update(count, stateful=True, metadata=True)
    try:
        app.run()
    finally:
        hours.tell()


def each(with_subjects: bool, hours: Hours) -> Callable[[bytes, Any, int, Any, State], None]:
    """The function that counts a record."""
    decode = decoder()

    def count(value: bytes, key: Any, at: int, headers: Any, state: State) -> None:
        event = decode(value)
        whose = row_key(event)
        for name, width in WINDOWS_MS.items():
            place = f"{name}|{at - at % width}|{whose}".encode()
            row = counted(state.get_bytes(place), event, with_subjects)
            state.set_bytes(place, row, ttl=KEPT)
        hours.note(whose, at, row)

    return count


if __name__ == "__main__":
    main()

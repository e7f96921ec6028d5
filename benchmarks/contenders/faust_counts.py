"""Counts events by minute and hour with Faust and its own windowed tables, at least once.

Arguments are name=value, as of `faust_app.py`, without `output`; `subjects` is `true` if rows have
the sketch of their subjects. Without a `default`, reading a missing row of a windowed table fails.
"""

from __future__ import annotations

import logging
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import mode.loop

from contenders.event_rows import WINDOWS_MS, Hours, counted, decoder, row_key
from contenders.faust_app import configured

if TYPE_CHECKING:
    import faust


def main() -> None:
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    logging.disable(logging.WARNING)  # a line for each record sent, and for each full buffer
    mode.loop.use(given["loop"])

    import faust  # its loop must have been chosen

    with_subjects, hours = given.pop("subjects") == "true", Hours()
    app = configured(given)
    count(app, given, with_subjects, hours)
    try:
        faust.Worker(app, loglevel="error").execute_from_commandline()
    finally:
        hours.tell()


def count(app: faust.App, given: dict[str, str], with_subjects: bool, hours: Hours) -> None:
    partitions, decode = int(given["partitions"]), decoder()
    tables = {
        name: app.Table(
            name, partitions=partitions, default=bytes, key_type=str, value_type=bytes
        ).tumbling(timedelta(milliseconds=width), expires=timedelta(days=7))
        for name, width in WINDOWS_MS.items()
    }

    async def each(stream: faust.Stream) -> None:
        async for read in stream.events():
            event = decode(read.value)
            key = row_key(event)
            for table in tables.values():
                row = table[key] = counted(table[key].value(), event, with_subjects)
            hours.note(key, round(read.message.timestamp * 1000), row)

    raw = {"key_serializer": "raw", "value_serializer": "raw", "partitions": partitions}
    app.agent(app.topic(given["input"], **raw))(each)


if __name__ == "__main__":
    main()

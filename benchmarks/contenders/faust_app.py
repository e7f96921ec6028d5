"""The dedup stage on Faust, at least once; runs in an environment of its own.

Arguments are name=value: `bootstrap`, `group`, `input`, `output`, `state` (a directory),
`partitions`, then the settings: `loop` (`asyncio` or `uvloop`), `store` (`memory://`,
`rocksdb://`), and all others as Faust's App names them.

One event at a time: `take` would be faster, but outside of one event's context a table cannot
tell the partition that a key belongs to, and would restore it elsewhere.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING

import mode.loop

if TYPE_CHECKING:
    import faust

FINGERPRINT = slice(5, 21)
OWN = {"bootstrap", "group", "input", "output", "state", "partitions", "loop", "store"}


def main() -> None:
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    # Faust writes a line for each record sent, at a level that its own setting leaves enabled:
    # a good part of its time went there.
    logging.disable(logging.INFO)
    mode.loop.use("aio" if given["loop"] == "asyncio" else given["loop"])

    import faust  # its loop must have been chosen

    app = configured(given)
    deduplicate(app, given)
    faust.Worker(app, loglevel="warn").execute_from_commandline()


def configured(given: dict[str, str]) -> faust.App:
    import faust

    return faust.App(
        given["group"],
        broker=f"kafka://{given['bootstrap']}",
        store=given["store"],
        datadir=given["state"],
        topic_partitions=int(given["partitions"]),
        topic_replication_factor=1,
        topic_disable_leader=True,
        web_enabled=False,
        processing_guarantee="at_least_once",
        consumer_auto_offset_reset="earliest",
        key_serializer="raw",
        value_serializer="raw",
        **{name: parsed(value) for name, value in given.items() if name not in OWN},
    )


def deduplicate(app: faust.App, given: dict[str, str]) -> None:
    partitions = int(given["partitions"])
    raw = {"key_serializer": "raw", "value_serializer": "raw", "partitions": partitions}
    unique = app.topic(given["output"], **raw)
    seen = app.Table("seen", partitions=partitions, key_type=bytes, value_type=bytes)

    async def first(stream: faust.Stream) -> None:
        async for event in stream.events():
            fingerprint = event.value[FINGERPRINT]
            if fingerprint in seen:
                continue
            seen[fingerprint] = b"1"
            message = event.message
            await unique.send(
                key=message.key,
                value=event.value,
                headers=event.headers,
                partition=message.partition,
                timestamp=message.timestamp,
            )

    app.agent(app.topic(given["input"], **raw))(first)


def parsed(value: str) -> object:
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value


if __name__ == "__main__":
    main()

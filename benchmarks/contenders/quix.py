"""The dedup stage on Quix Streams, exactly once; runs in an environment of its own.

Arguments are name=value: `bootstrap`, `group`, `input`, `output`, `state` (a directory), then the
settings: `commit_interval` (seconds), `commit_every` (records, 0 for no limit), `ttl_days` of a
fingerprint in the store (0: it stays for ever), `buffer` (records held of each partition), and
`consumer.NAME` and `producer.NAME` for librdkafka.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta

from quixstreams import Application, State

FINGERPRINT = slice(5, 21)


def main() -> None:
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    app = application(given)
    source = app.topic(given["input"], value_deserializer="bytes", key_deserializer="bytes")
    unique = app.topic(given["output"], value_serializer="bytes", key_serializer="bytes")
    days = float(given["ttl_days"])
    first = first_within(timedelta(days=days) if days else None)
    app.dataframe(source).filter(first, stateful=True).to_topic(unique)
    app.run()


def application(given: dict[str, str]) -> Application:
    """Quix's application with the settings of the arguments, exactly once."""
    return Application(
        broker_address=given["bootstrap"],
        consumer_group=given["group"],
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        state_dir=given["state"],
        loglevel="WARNING",
        commit_interval=float(given["commit_interval"]),
        commit_every=int(given["commit_every"]),
        max_partition_buffer_size=int(given["buffer"]),
        consumer_extra_config=under("consumer.", given),
        producer_extra_config=under("producer.", given),
    )


def under(prefix: str, given: dict[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)
    }


def first_within(ttl: timedelta | None) -> Callable[[bytes, State], bool]:
    def first(value: bytes, state: State) -> bool:
        fingerprint = value[FINGERPRINT]
        if state.get_bytes(fingerprint) is not None:
            return False
        state.set_bytes(fingerprint, b"1", ttl=ttl)
        return True

    return first


if __name__ == "__main__":
    main()

"""Reads `events` on, and gives each event to a function once, as far as its sink is asked."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from streams.event_reader.group import require_own_group
from streams.event_reader.handling import Handle, require_plain
from streams.event_reader.reader import EventsPurged, Reader
from streams.event_reader.selection import Selection
from streams.event_reader.sinks import Sink
from streams.kafka.clients import wait_for_broker
from streams.settings import load_settings

__all__ = ["EventsPurged", "consume"]

_REFUSED_SECONDS = 5.0


def consume(
    handle: Handle,
    *,
    group: str,
    into: Sink,
    bootstrap: str | None = None,
    tenant: str | None = None,
    source: str | None = None,
    types: str | Sequence[str] = (),
    skip_purged: bool = False,
    skip_unreadable: bool = False,
    until_end: bool = False,
    stop: threading.Event | None = None,
) -> int:
    """Call `handle(event, to)` for each event; return how many were handled.

    The effects that `handle` has through `to` (a cursor, or a function that sends) and the offset
    of the event are one transaction of `into`: a crash at any line neither loses nor repeats them.
    Other effects of `handle` may happen again. Processes of one group share the partitions, so they
    must select the same events.

    `tenant`, `source` and `types` (a glob, or several) select events. It runs until `stop` is set,
    or with `until_end` until all that was there at its start is handled. It waits for brokers and
    partitions that do not answer, and logs why. Settings come from the environment, as
    `TIDEGATE_BOOTSTRAP` and `TIDEGATE_KAFKA_*`.

    Raises:
        ConfigError: a setting is wrong, the group is one of Tidegate's own, or `handle` is async
            or a generator, of which nothing would run.
        EventsPurged: events were purged before they were read; `skip_purged` goes on after them,
            unless the topic ends before them, as one does that was made again.
        PoisonRecord: a record cannot be read; `skip_unreadable` leaves such records out.
        KafkaUnavailable: Kafka refuses this client, or to be read, or gives a damaged batch.
        Exception: whatever `handle` or the sink raises; the transaction is rolled back.
    """
    settings = load_settings(bootstrap=bootstrap)
    require_own_group(group)
    require_plain(handle)
    globs = (types,) if types and isinstance(types, str) else tuple(types)
    selection = Selection(tenant_id=tenant, source=source, types=globs)
    stop = stop or threading.Event()
    wait_for_broker(settings, refused_seconds=_REFUSED_SECONDS, stop=stop)
    if stop.is_set():
        return 0
    reader = Reader(settings, group, into, selection, skip_purged, skip_unreadable, until_end)
    return reader.run(handle, stop)

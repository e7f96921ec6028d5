"""Decides where the read model continues to read, and when its rows can no longer be trusted."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from streams.api.tables import TABLES
from streams.errors import TidegateError
from streams.kafka.offsets import Place, earliest, latest, read_offsets, read_since
from streams.topology.model import CHANGELOG_DELETE_RETENTION_MS

MAX_AGE_MS = CHANGELOG_DELETE_RETENTION_MS // 2
"""After a longer absence, a tombstone may have been compacted away unread; its row would stay for
ever."""

_AGING = {table.topic for table in TABLES if table.expires}
"""Topics of which the oldest records go, and at the same age their rows."""

_TIMEOUT = 10


class Untrusted(TidegateError):
    """The rows no longer match the topics: rebuild the read model."""


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets that a partition holds now; a topic that was created again has a new id.

    Records before `begin` are too old for their table.
    """

    topic_id: str
    low: int
    high: int
    begin: int = 0


def spans(admin: AdminClient, prefix: str, oldest: Mapping[str, int]) -> dict[Place, Span]:
    """Return the first and the next offset of every followed partition.

    `oldest` has the time (milliseconds) of the oldest record wanted, of topics not read wholly.

    Raises:
        KafkaException: a topic does not exist, or no broker answered in time.
    """
    names = [prefix + table.topic for table in TABLES]
    described = {
        name.removeprefix(prefix): future.result(_TIMEOUT)
        for name, future in admin.describe_topics(TopicCollection(names)).items()
    }
    places = [(topic, info.id) for topic, found in described.items() for info in found.partitions]
    lows = read_offsets(admin, prefix, places, earliest(), _TIMEOUT)
    highs = read_offsets(admin, prefix, places, latest(), _TIMEOUT)
    begins: dict[Place, int] = {}
    for topic, moment in oldest.items():
        of_topic = {place: high for place, high in highs.items() if place[0] == topic}
        begins |= read_since(admin, prefix, of_topic, moment, _TIMEOUT)
    return {
        place: Span(str(described[place[0]].topic_id), low, highs[place], begins.get(place, low))
        for place, low in lows.items()
    }


def stored(connection: sqlite3.Connection) -> dict[Place, tuple[str, int]]:
    """Return topic id and next offset by partition, as stored in the transaction of the rows."""
    rows = connection.execute("SELECT topic, part, topic_id, next_offset FROM positions")
    return {(topic, part): (topic_id, offset) for topic, part, topic_id, offset in rows}


def resume(connection: sqlite3.Connection, found: dict[Place, Span], now: int) -> dict[Place, int]:
    """Return the next offset to read of every partition; `now` in milliseconds.

    Raises:
        Untrusted: a topic was created again, offsets are gone, or the rows are too old.
    """
    known = stored(connection)
    if not known:
        # A fold from the topics' starts makes every row at least as new as this moment.
        store_freshness(connection, now)
    at = fresh_at(connection)
    if at is None or now - at > MAX_AGE_MS:
        raise Untrusted("it was away for so long that deletions may have been compacted away")
    starts = {}
    for key, span in found.items():
        topic_id, offset = known.get(key, (span.topic_id, span.low))
        if topic_id != span.topic_id:
            raise Untrusted(f"topic {key[0]} was deleted and made anew")
        low = 0 if key[0] in _AGING else span.low
        if not low <= offset <= span.high:
            raise Untrusted(
                f"offset {offset} of {key[0]}/{key[1]} lies outside {low} to {span.high}"
            )
        starts[key] = max(offset, span.low, span.begin)
    return starts


def store(
    connection: sqlite3.Connection,
    found: dict[Place, Span],
    offsets: dict[Place, int],
) -> None:
    """Store next offsets, inside the caller's transaction."""
    connection.executemany(
        "INSERT OR REPLACE INTO positions (topic, part, topic_id, next_offset) VALUES (?, ?, ?, ?)",
        [(*key, found[key].topic_id, offset) for key, offset in offsets.items()],
    )


def fresh_at(connection: sqlite3.Connection) -> int | None:
    """Return the last time (milliseconds) at which the rows were surely up to date."""
    row = connection.execute("SELECT at FROM freshness").fetchone()
    return None if row is None else int(row[0])


def store_freshness(connection: sqlite3.Connection, now: int) -> None:
    """Store that the rows were up to date at `now` (milliseconds)."""
    connection.execute("INSERT OR REPLACE INTO freshness (only_row, at) VALUES (1, ?)", (now,))

"""A reader's effects and offsets in PostgreSQL, through its DB-API driver."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pg8000.dbapi
import pytest
from support.operator_cluster import make_event
from support.played_consumer import PlayedConsumer

from streams import DatabaseSink, consume
from streams.event_reader import consume as consuming
from streams.event_reader import reader as reading
from streams.event_reader.handling import Part
from streams.event_reader.sinks import Moved
from streams.serde.codec import ENVELOPE
from streams.serde.records import Envelope

Connect = Callable[[], Any]


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    """Opens connections to a PostgreSQL of this test alone."""
    sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
    from contenders.environments import Unavailable
    from jobs_servers import postgres

    folder = tmp_path_factory.mktemp("postgres")
    try:
        with postgres(folder, {"fsync": "off"}) as (_, url):
            where = urlsplit(url)
            yield lambda: pg8000.dbapi.connect(
                user=where.username or "",
                host=where.hostname or "",
                port=where.port or 0,
                database=where.path[1:],
            )
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def table(connect: Connect) -> Iterator[Any]:
    connection = connect()
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE seen (event_id TEXT)")
    connection.commit()
    yield connection
    connection.rollback()
    cursor.execute("DROP TABLE seen")
    cursor.execute("DROP TABLE IF EXISTS tidegate_offsets")
    connection.commit()
    connection.close()


def insert(event: Envelope, cursor: Any) -> None:
    cursor.execute("INSERT INTO seen VALUES (%s)", (event.event_id,))


def seen(connection: Any) -> list[str]:
    cursor = connection.cursor()
    cursor.execute("SELECT event_id FROM seen ORDER BY 1")
    found = [row[0] for row in cursor.fetchall()]
    connection.rollback()
    return found


def test_each_event_is_in_the_database_once_also_after_a_handler_failed(
    connect: Connect, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = [ENVELOPE.encode(make_event(f"a{n}")) for n in range(7)]
    monkeypatch.setattr(reading, "Consumer", lambda _: PlayedConsumer([log]))
    monkeypatch.setattr(consuming, "wait_for_broker", lambda *_, **__: None)

    def failing(event: Envelope, cursor: Any) -> None:
        insert(event, cursor)
        if event.event_id == "evt_a4":
            raise ValueError("no")

    def read(handle: Callable[..., None]) -> int:
        return consume(handle, group="orders", into=DatabaseSink(connect), until_end=True)

    with pytest.raises(ValueError, match="no"):
        read(failing)
    assert seen(table) == ["evt_a0", "evt_a1", "evt_a2"]
    assert (read(insert), read(insert)) == (4, 0)
    assert seen(table) == [f"evt_a{n}" for n in range(7)]


@pytest.mark.parametrize("stored", [None, 2])
def test_of_two_processes_at_one_partition_the_second_one_writes_nothing(
    connect: Connect, table: Any, stored: int | None
) -> None:
    """The second one waits for the first one's row, and then finds that it was read on."""
    first, second = DatabaseSink(connect), DatabaseSink(connect)
    consumer: Any = PlayedConsumer([])
    for sink in (first, second):
        sink.open("orders", "events", {})
    if stored is not None:
        first.write(consumer, Part(0, None, stored, ()), insert)
    part = Part(0, stored, 9, [(9, make_event("a1"))])
    with ThreadPoolExecutor(1) as pool:

        def overtaken(event: Envelope, cursor: Any) -> None:
            insert(event, cursor)
            waiting.append(pool.submit(second.write, consumer, part, insert))

        waiting: list[Any] = []
        first.write(consumer, part, overtaken)
        with pytest.raises(Moved):
            waiting[0].result(30)
    assert (seen(table), second.stored(consumer, [0])) == (["evt_a1"], {0: 9})
    for sink in (first, second):
        sink.close()

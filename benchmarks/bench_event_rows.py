"""What the operator's list of events costs: processor time an event, bytes a row.

    python benchmarks/bench_event_rows.py [--events 100000] [--json]

Events of 200 tenants are folded into a read model on disk, in batches as the operator folds them,
without a broker. Then the list is read, and half of the rows grow too old and are deleted. If a row
is missing, the exit code is 1.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from harness import Result, arguments, report

from streams.api.events import table as events
from streams.api.read_model.database import Database, transaction
from streams.api.read_model.projections import Changes, project
from streams.api.rows.paging import PageQuery
from streams.runtime.processor import Record
from streams.serde import ids
from streams.serde.codec import ENVELOPE
from streams.serde.records import Envelope, PayloadRef

TENANTS = 200
BATCH = 500
"""About what a read model that keeps up takes at 10,000 events a second, in each 50 ms."""
BEGIN = 1_750_000_000_000


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        database = Database(Path(folder) / "m.sqlite")
        with closing(database.open_writer()) as connection:
            results, missing = measure(connection, database.path, chosen.events)
    report("event_rows", results, as_json=chosen.json)
    sys.exit(1 if missing else 0)


def measure(connection: sqlite3.Connection, path: Path, count: int) -> tuple[list[Result], int]:
    records = [record(number) for number in range(count)]
    folded = worked(lambda: fold(connection, records))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = path.stat().st_size / count
    listed = took(lambda: events.LISTING.page(connection, PageQuery(50)))
    of_tenant = {"tenant_id": "tenant-7"}
    tenants = took(lambda: events.LISTING.page(connection, PageQuery(50, None, of_tenant)))
    nothing = {"event_type": "none.*"}
    scanned = took(lambda: events.LISTING.page(connection, PageQuery(50, None, nothing)))
    aged = worked(lambda: age(connection, BEGIN + count // 2))
    (left,) = connection.execute("SELECT count(*) FROM events").fetchone()
    missing = abs(left - (count - count // 2))
    mean = sum(len(r.value or b"") for r in records) / count
    return [
        Result("event", "record on the topic", round(mean), "bytes"),
        Result("event", "row with its part of the indexes", round(size), "bytes"),
        Result("event", "folded, processor time", round(folded / count * 1e6, 1), "us"),
        Result("event", "deleted, processor time", round(aged / (count // 2) * 1e6, 1), "us"),
        Result("list", "50 newest", round(listed * 1e3, 2), "ms"),
        Result("list", "50 newest of a tenant", round(tenants * 1e3, 2), "ms"),
        Result("list", "a type that no event has", round(scanned * 1e3, 1), "ms"),
        Result("event", "missing rows", missing, "rows"),
    ], missing


def record(number: int) -> Record:
    """An event with five attributes, as a shop's order."""
    tenant_id, key = f"tenant-{number % TENANTS}", f"order-{number}"
    attributes = {
        "currency": "EUR",
        "status": "paid",
        "region": "eu-west",
        "channel": "web",
        "customer": f"c-{number}",
    }
    event = Envelope(
        ids.fingerprint(tenant_id, "shop", key),
        ids.new_id("evt"),
        "shop",
        tenant_id,
        "order.paid",
        None,
        BEGIN + number,
        b"\1" * 32,
        key,
        f"order {number}",
        "application/json",
        None,
        ids.new_id("req"),
        PayloadRef(number % 4, (number,), 1_024, ids.new_id("key")),
        attributes,
        "webhook",
        None,
        number % 10 > 0,
    )
    return Record("events", 0, number, BEGIN + number, tenant_id.encode(), ENVELOPE.encode(event))


def fold(connection: sqlite3.Connection, records: list[Record]) -> None:
    """Do with the records what the operator's follower does."""
    for begin in range(0, len(records), BATCH):
        batch: dict[str, Changes] = {}
        for each in records[begin : begin + BATCH]:
            project(each, batch)
        with transaction(connection):
            for changes in batch.values():
                changes.write(connection)


def age(connection: sqlite3.Connection, before: int) -> None:
    with transaction(connection):
        connection.execute("DELETE FROM events WHERE at < ?", (before,))


def worked(work: Callable[[], object]) -> float:
    """Return the processor time of this process, in seconds."""
    began = time.process_time()
    work()
    return time.process_time() - began


def took(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()

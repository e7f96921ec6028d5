"""Analytics under test: what is written to its topics, and a count made from the topics alone.

`counted_from_topics` shares no fold with the stage: it reads all committed records, keeps the
newest one of each job, effect and duplicate, and counts these.
"""

from __future__ import annotations

import random
import re
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from streams.analytics.figures import Figures
from streams.analytics.partitions import TOPICS
from streams.analytics.windows import STEPS, WAITING, parse_row_key
from streams.serde.codec import DUPLICATE, ENVELOPE, JOB, LEDGER_ENTRY
from streams.serde.ids import partition_for
from streams.serde.job_states import TERMINAL
from streams.serde.keys import ledger_key
from streams.serde.records import Duplicate
from streams.state.rocksdb import RocksTables, remove_tables
from streams.state.rocksdb_memory import RocksMemory
from support.operator_cluster import event_job, make_entry, make_event
from support.stage_process import Cluster, StageProcess

NOW = int(time.time() * 1000) - 3_600_000
SEGMENT = 7 * 86_400_000
Rows = dict[tuple[str, int, str, int, tuple[str, ...]], bytes]
"""Topic, width of the window, tenant, start and dimensions of a row: its figures as written."""


class AnalyticsProcess(StageProcess):
    """One process of the stage."""

    def positions(self) -> dict[tuple[str, int], int]:
        """By topic and partition, what it has counted; empty before it counts."""
        if not self._started():
            return {}
        told = self._probe("/metrics").read().decode()
        found = re.findall(
            r'^tidegate_analytics_position\{partition="(\d+)",topic="(\S+)"\} (\S+)$', told, re.M
        )
        return {(topic, int(partition)): int(float(at)) for partition, topic, at in found}

    def get(self, path: str, token: str | None = "test-token") -> Any:
        """The answer of its API, or HTTPError."""
        request = urllib.request.Request(f"http://127.0.0.1:{self._started()['probe_port']}{path}")
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        return urllib.request.urlopen(request, None, 30)


@contextmanager
def analytics(cluster: Cluster, folder: Path, instance: str = "0") -> Iterator[AnalyticsProcess]:
    """The stage as a process; its log is shown where the test failed."""
    environ = cluster.environ(folder / "data", instance)
    environ |= {"TIDEGATE_PORT": "0", "TIDEGATE_ADMIN_TOKEN": "test-token"}
    log = folder / f"log-{instance}-{time.monotonic_ns()}"  # the port in it is this process's
    running = AnalyticsProcess("analytics_stage", log, environ)
    try:
        yield running
    finally:
        running.kill()
        print(running.lines)


class Traffic:
    """Writes to the four topics in transactions, of which some are aborted."""

    def __init__(self, cluster: Cluster, seed: int = 7) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        self._producer = Producer(
            cluster.client(
                transactional_id=f"{cluster.prefix}traffic", linger_ms=5, compression_type="lz4"
            )
        )
        self._producer.init_transactions(30)
        self._written = 0
        self._jobs: list[Any] = []
        self._entries: list[Any] = []
        self._duplicates: dict[bytes, tuple[int, Duplicate]] = {}

    def write(self, records: int) -> None:
        """One transaction of about so many records of each topic; every third one is aborted."""
        self._producer.begin_transaction()
        kept = self._jobs[:], self._entries[:], dict(self._duplicates)
        for _ in range(records):
            self._event()
        self._written += 1
        if self._written % 3 == 0:
            self._producer.flush()
            self._producer.abort_transaction(30)
            self._jobs, self._entries, self._duplicates = kept
        else:
            self._producer.commit_transaction(30)

    def _event(self) -> None:
        pick = self._random
        tenant, at = f"tenant{pick.randrange(6)}", NOW - pick.randrange(5 * 86_400_000)
        number = pick.randrange(1 << 40)
        event = make_event(
            f"e{number}",
            tenant,
            source=pick.choice(["shop", "desk"]),
            event_type=pick.choice(["order.paid", "ticket"]),
            subject=f"s{pick.randrange(50)}",
        )
        partition = partition_for(tenant, self._cluster.width("events"))
        self._send("events", partition, tenant.encode(), ENVELOPE.encode(event), at)
        job = event_job(event, event_time=at, ready_at=at, created_at=at, updated_at=at)
        self._jobs.append((partition, job))
        self._send("jobs", partition, job.job_id.encode(), JOB.encode(job), at)
        self._later(at)
        if pick.random() < 0.5:
            again = Duplicate(tenant, 1, at, at + 5, None, event.source, event.event_type)
            self._duplicates[event.fingerprint] = partition, again
            self._send("duplicates", partition, event.fingerprint, DUPLICATE.encode(again), at)

    def _later(self, at: int) -> None:
        """Something happens to an old job, effect and duplicate."""
        pick = self._random
        at_ = pick.randrange(len(self._jobs))
        partition, job = self._jobs[at_]
        status = pick.choice(["running", "succeeded", "dead", "pending"])
        job = replace(job, status=status, updated_at=job.event_time + pick.randrange(1, 90_000))
        self._jobs[at_] = partition, job
        self._send("jobs", partition, job.job_id.encode(), JOB.encode(job), at)
        entry = make_entry(
            job,
            pick.choice(["mail:send/a", "pay:refund/b"]),
            first_claimed_at=job.event_time,
            status=pick.choice(["claimed", "done", "failed"]),
        )
        key = ledger_key(entry.tenant_id, entry.scope, entry.action)
        self._send("ledger", partition, key, LEDGER_ENTRY.encode(entry), at)
        if self._duplicates:
            fingerprint = pick.choice(list(self._duplicates))
            partition, known = self._duplicates[fingerprint]
            count, last = known.count + pick.randrange(1, 4), known.last_at + 40_000
            known = replace(known, count=count, last_at=last)
            self._duplicates[fingerprint] = partition, known
            self._send("duplicates", partition, fingerprint, DUPLICATE.encode(known), at)

    def _send(self, topic: str, partition: int, key: bytes, value: bytes, at: int) -> None:
        name = self._cluster.prefix + topic
        self._producer.produce(name, value, key, partition, timestamp=at)


def ends(cluster: Cluster) -> dict[tuple[str, int], int]:
    """By topic and partition, the offset behind the last committed record."""
    found: dict[tuple[str, int], int] = {}
    for topic in TOPICS:
        for message in cluster.read(topic):
            found[topic, message.partition() or 0] = (message.offset() or 0) + 1
    return found


def counted_from_topics(cluster: Cluster) -> Rows:
    """What the tables must hold."""
    rows: defaultdict[tuple[str, int, str, int, tuple[str, ...]], Figures] = defaultdict(Figures)

    def at(topic: str, tenant: str, when: int, *dimensions: str) -> list[Figures]:
        widths = (60_000, 3_600_000)
        return [rows[topic, w, tenant, when // w * w, dimensions] for w in widths]

    for message in cluster.read("events"):
        event = ENVELOPE.decode(message.value())
        for row in at(
            "events", event.tenant_id, message.timestamp()[1], event.source, event.event_type
        ):
            row.events += 1
            row.subjects.add(event.tenant_id, event.source, event.subject or "")
    before: dict[bytes, int] = {}
    for message in cluster.read("duplicates"):
        again = DUPLICATE.decode(message.value())
        key = message.key() or b""
        more = again.count - before.get(key, 0)
        before[key] = again.count
        for row in at(
            "duplicates", again.tenant_id, again.last_at, str(again.source), str(again.event_type)
        ):
            row.redeliveries += more
    for value in {m.key(): m.value() for m in cluster.read("jobs")}.values():
        job = JOB.decode(value)
        if job.status in TERMINAL and job.event:
            for row in at(
                "jobs", job.tenant_id, job.event_time, job.event.source, job.event.event_type
            ):
                row.outcome(job.status)
                row.took.add(job.updated_at - job.event_time)
    for value in {m.key(): m.value() for m in cluster.read("ledger")}.values():
        entry = LEDGER_ENTRY.decode(value)
        for row in at(
            "ledger", entry.tenant_id, entry.first_claimed_at, entry.action.split("/")[0]
        ):
            row.outcome(entry.status)
    return {key: row.encode() for key, row in rows.items()}


def tables_of(*folders: Path) -> Rows:
    """The rows in the state directories of processes that have ended.

    Of two that have one partition, the one that is further counts: the other lost it.
    """
    newest: dict[tuple[str, str], tuple[int, Rows]] = {}
    for folder in folders:
        for path in sorted((folder / "data/state/analytics").glob("*/*/*")):
            place, found = (path.parts[-2], path.parts[-1]), _rows(path)
            if place not in newest or found[0] > newest[place][0]:
                newest[place] = found
    merged: Rows = {}
    for _, rows in newest.values():
        assert not merged.keys() & rows.keys()
        merged |= rows
    empty = Figures().encode()
    return {key: row for key, row in merged.items() if row != empty}


def _rows(path: Path) -> tuple[int, Rows]:
    tables = RocksTables(path, identity_of(path), RocksMemory())
    rows: Rows = {}
    for number in tables.numbers():
        if number == WAITING:
            continue
        for step in STEPS.values():
            end = bytes([step.prefix[0] + 1])
            for key, value in tables.range(number, step.prefix, end):
                row = parse_row_key(key)
                rows[path.parts[-2], step.ms, row.tenant_id, row.start, row.dimensions] = value
    checkpoint = tables.checkpoint()
    tables.close()
    return (checkpoint.offset if checkpoint else 0), rows


def identity_of(path: Path) -> str:
    """The identity under which a database was written."""
    from rocksdict import Options, Rdict

    options = RocksMemory().walked()
    names = Rdict.list_cf(str(path), Options(raw_mode=True))
    database = Rdict(str(path), options, column_families=dict.fromkeys(names, options))
    written = database.get(b"identity") or b""
    database.close()
    return str(written.decode()).partition(", ")[2]


def lose_disk(folder: Path) -> None:
    """Remove what a process has on its disk."""
    for path in (folder / "data/state/analytics").glob("*/*/*"):
        remove_tables(path)

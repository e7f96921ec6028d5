"""What readers of `events` get: exports, replays that make jobs, figures, and schemas.

    python benchmarks/bench_fanout.py [--events 100000] [--replayed 10000] [--lookups 2000]
        [--rounds 1] [--json]

`tidegate events export` writes all events of a topic of 40 tenants. `tidegate analytics`, plain
Faust and Quix Streams count all of them, one after the other (`fanout_contenders.py`). `tidegate
operator` and `tidegate pipeline` run on the same topic. A dry run counts all of them (`scanned`). A
replay without a limit of its own then gives some of them jobs, and the clock stops when the last of
them is on `jobs`. Meanwhile nothing runs these jobs. Last, one client asks the schema registry for
a schema, over and over. Each replayed event must have one job, and each event must be counted once,
else the exit code is 1.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.request import urlopen

from confluent_kafka import Consumer, TopicPartition
from fanout_contenders import TOKEN, TOPOLOGY, Topic, contest
from harness import Result, arguments, broker_and_folder, create_topics, report
from outside import OVERLAY, Reader, flush, percentiles, producer, stage, until

from streams.cli.api_client import CallFailed, call
from streams.event_export.formats import FORMATS
from streams.serde.codec import ENVELOPE, JOB
from streams.serde.ids import fingerprint, new_id, partition_for
from streams.serde.records import Envelope, PayloadRef

TENANTS = 40
REPLAYED, OTHER = "order.paid", "order.seen"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--replayed", type=int, default=10_000)
    parser.add_argument("--lookups", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=1, help="of counting in turns")
    chosen = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    with broker_and_folder() as (bootstrap, folder):
        create_topics(bootstrap, TOPOLOGY, tuple(TOPOLOGY.topics))
        fill(bootstrap, chosen.events, chosen.replayed)
        results = [row for format_ in FORMATS for row in exported(bootstrap, folder, format_)]
        counted, void = contest(Topic(bootstrap, chosen.events, url, folder), chosen.rounds)
        more, wrong = measure(bootstrap, folder, url, chosen.events, chosen.replayed)
        results += [*counted, *more]
        results += lookups(bootstrap, folder, url, chosen.lookups)
    report("fanout", results, as_json=chosen.json)
    sys.exit(1 if wrong or void else 0)


def fill(bootstrap: str, count: int, replayed: int) -> None:
    """Write events, of which so many, evenly spread, have the type that is replayed."""
    out, every = producer(bootstrap), count // replayed
    for number in range(count):
        event = an_event(f"t{number % TENANTS}", number, OTHER if number % every else REPLAYED)
        home = partition_for(event.tenant_id, TOPOLOGY.partitions)
        out.produce("events", ENVELOPE.encode(event), event.tenant_id.encode(), home)
        if number % 10_000 == 0:
            flush(out)
    flush(out)


def an_event(tenant_id: str, number: int, type_: str) -> Envelope:
    key = f"key-{number}"
    return Envelope(
        fingerprint(tenant_id, "shop", key),
        new_id("evt"),
        "shop",
        tenant_id,
        type_,
        None,
        1,
        b"h" * 32,
        key,
        f"order {number}",
        "application/json",
        None,
        None,
        PayloadRef(0, (), 0, "k"),
        {"amount": "12.50", "currency": "EUR"},
        "webhook",
    )


def exported(bootstrap: str, folder: Path, format_: str) -> list[Result]:
    """The rate of an export, as a command from start to end."""
    to = folder / format_
    command = [
        sys.executable,
        "-m",
        "streams.cli",
        "events",
        "export",
        "--bootstrap",
        bootstrap,
        "--topology",
        str(OVERLAY),
        "--to",
        str(to),
        "--format",
        format_,
        "--json",
    ]
    began = time.monotonic()
    told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    took = time.monotonic() - began
    size = sum(path.stat().st_size for path in to.rglob(f"*.{format_}"))
    return [
        Result(f"export {format_}", "written", told["events"] / took, "events/s"),
        Result(f"export {format_}", "written", size / took / 1e6, "MB/s"),
    ]


def measure(
    bootstrap: str, folder: Path, url: str, events: int, replayed: int
) -> tuple[list[Result], bool]:
    with operator(bootstrap, folder, url) as process, stage("pipeline", bootstrap, folder) as jobs:
        until(lambda: answers(url), process, "the operator is ready")
        until(lambda: has_read_all(bootstrap), jobs, "the pipeline has read the events", 300)
        began = time.monotonic()
        told = call(url, TOKEN, "POST", "/v1/replays", body={"dry_run": True}, within=600)
        scanned = told["events"] / (time.monotonic() - began)
        body = {"event_type": REPLAYED, "job": "measured", "note": "a measurement", "rate": 10_000}
        began = time.monotonic()
        replay = call(url, TOKEN, "POST", "/v1/replays", body=body)["replay_id"]
        made = JobCount(bootstrap)
        until(lambda: made.distinct() >= replayed, jobs, f"{replayed} jobs", 300)
        took = time.monotonic() - began
        until(lambda: done(url, replay), process, "the replay is done")
        shown = call(url, TOKEN, "GET", f"/v1/replays/{replay}")
    rows = [
        Result("dry run", "scanned", scanned, "events/s"),
        Result("replay", "jobs made", replayed / took, "jobs/s"),
        Result("replay", "asked for within", shown["seconds_worked"], "s"),
    ]
    return rows, told["events"] != events or made.records != made.distinct()


class JobCount:
    """Reads `jobs` on, and counts jobs and first records of jobs."""

    def __init__(self, bootstrap: str) -> None:
        self._reader = Reader(bootstrap, TOPOLOGY, "jobs")
        self._ids: set[str] = set()
        self.records = 0

    def distinct(self) -> int:
        for message in self._reader.read(10_000):
            self.records += 1
            self._ids.add(JOB.decode(message.value()).job_id)
        return len(self._ids)


def has_read_all(bootstrap: str) -> bool:
    """Whether the pipeline has read the events of before, for which no route has a job."""
    asker = Consumer({"bootstrap.servers": bootstrap, "group.id": "pipeline"})
    places = [TopicPartition("events", p) for p in range(TOPOLOGY.partitions)]
    ends = {p.partition: asker.get_watermark_offsets(p)[1] for p in places}
    found = all(p.offset >= ends[p.partition] for p in asker.committed(places))
    asker.close()
    return found


def lookups(bootstrap: str, folder: Path, url: str, count: int) -> list[Result]:
    """How long single look-ups take, one after the other."""
    with operator(bootstrap, folder, url) as process:
        until(lambda: answers(url), process, "the operator is ready")
        took = list[float]()
        for _ in range(count):
            began = time.monotonic()
            with urlopen(f"{url}/schemas/ids/19", timeout=10) as answer:
                answer.read()
            took.append(time.monotonic() - began)
    return percentiles("schema registry", "look-up", took)


def operator(
    bootstrap: str, folder: Path, url: str
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    port, env = url.rpartition(":")[2], {"TIDEGATE_ADMIN_TOKEN": TOKEN}
    return stage("operator", bootstrap, folder, "--port", port, env=env)


def done(url: str, replay: str) -> bool:
    return bool(call(url, TOKEN, "GET", f"/v1/replays/{replay}")["status"] == "done")


def answers(url: str) -> bool:
    try:
        call(url, TOKEN, "GET", "/v1/jobs", query={"limit": "1"})
    except CallFailed:
        time.sleep(0.1)
        return False
    return True


if __name__ == "__main__":
    main()

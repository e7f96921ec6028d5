"""Many deliveries that wait: memory, and the time until a killed process sends again.

    python benchmarks/bench_delivery_rows.py [--rows 100000] [--json]

Ten tenants have a hundred endpoints each, whose receivers refuse every connection, so that each
event leaves a hundred rows waiting behind open circuits. One attempt more is under way
when the process is killed. `first re-drive` is the time from the start of the next process to the
POST of that attempt, with the state that the killed one left, and without any.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench_delivery import EGRESS, TOPOLOGY, World, receiver, stats
from confluent_kafka import Consumer, TopicPartition
from harness import Result, arguments, broker_and_folder, create_topics, report
from outside import stage, until

from streams.broker.ports import pick_free

TENANTS, ENDPOINTS, EVENTS_AT_ONCE = 10, 100, 20
MIB = 1024 * 1024


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    chosen = parser.parse_args()
    with broker_and_folder() as (bootstrap, folder), receiver() as url:
        create_topics(bootstrap, TOPOLOGY, tuple(TOPOLOGY.topics))
        rows = measure(bootstrap, folder, url, chosen.rows)
    report("delivery_rows", rows, as_json=chosen.json)


def measure(bootstrap: str, folder: Path, url: str, count: int) -> list[Result]:
    name, world, hung = f"{count:,} rows", World(bootstrap), f"{url}/hang"
    with stage("delivery", bootstrap, folder, env=EGRESS) as process:
        seconds = fill(world, bootstrap, process, count)
        rows = [Result(name, "made", count / seconds, "1/s"), *memory(name, "filled", process)]
        world.endpoint("probe", "crm", hung)
        world.events("probe", ["evt_probe"])
        until(lambda: hanging_since(url) > 0, process, "the attempt is under way")
        process.kill()
    rows += restarted(name, "its state", bootstrap, folder, url)
    shutil.rmtree(folder / "state")
    return rows + restarted(name, "no state", bootstrap, folder, url)


def fill(world: World, bootstrap: str, process: subprocess.Popen[bytes], count: int) -> float:
    """Make the rows by as many events as it takes; returns the seconds from the first event on."""
    closed = f"http://127.0.0.1:{pick_free(frozenset())}"
    tenants = [f"tenant{number}" for number in range(TENANTS)]
    for tenant in tenants:
        for number in range(ENDPOINTS):
            world.endpoint(tenant, f"e{number}", f"{closed}/{number}")
    began = time.monotonic()
    for turn in range(count // (TENANTS * ENDPOINTS * EVENTS_AT_ONCE)):
        for tenant in tenants:
            world.events(tenant, [f"evt_{tenant}_{turn}_{n}" for n in range(EVENTS_AT_ONCE)])
    written = rows_written(bootstrap)
    until(lambda: written() >= count, process, f"{count} rows", 60 + count / 1_000)
    return time.monotonic() - began


def rows_written(bootstrap: str) -> Callable[[], int]:
    """Counts the records of `deliveries`, of which each row's first is one."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "count"})
    places = [TopicPartition("deliveries", number) for number in range(TOPOLOGY.partitions)]

    def count() -> int:
        time.sleep(0.5)
        return sum(consumer.get_watermark_offsets(place)[1] for place in places)

    return count


def restarted(name: str, with_: str, bootstrap: str, folder: Path, url: str) -> list[Result]:
    """Seconds from the start of a process to the attempt that its predecessor had under way."""
    began = time.time()
    with stage("delivery", bootstrap, folder, env=EGRESS) as process:
        until(lambda: hanging_since(url) > began, process, "the attempt is made again", 300)
        took = hanging_since(url) - began
        rows = [Result(name, f"first re-drive, {with_}", took, "s"), *memory(name, with_, process)]
        process.kill()
    return rows


def hanging_since(url: str) -> float:
    """When the attempt under way last came, 0 if it did not."""
    time.sleep(0.05)
    return stats(url).get("hang evt_probe", 0)


def memory(name: str, when: str, process: subprocess.Popen[bytes]) -> list[Result]:
    """The memory of the process now, and the most that it had (proc(5))."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return [
        Result(name, f"{what}, {when}", int(match[1]) * 1024 / MIB, "MiB")
        for what, field in (("resident", "VmRSS"), ("peak", "VmHWM"))
        if (match := re.search(rf"^{field}:\s+(\d+) kB", status, re.M))
    ]


if __name__ == "__main__":
    main()

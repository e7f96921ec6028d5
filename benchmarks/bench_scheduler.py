"""Timers a second of one scheduler process, and how late they fire.

    python benchmarks/bench_scheduler.py [--timers 60000] [--seconds 10] [--json]

`overdue backlog`: every timer on `schedule` is due when `tidegate scheduler` starts, as after an
outage; each is taken in, stored and fired. `200 timers/s`: due one after the other while nothing
else happens; lateness is counted from the due time to the moment at which a reader of committed
records has the fired one. Every timer must fire once and none before its time, else the exit
code is 1.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable

from harness import Result, arguments, broker_and_folder, create_topics, report
from outside import OVERLAY, Reader, flush, percentiles, producer, stage, until

from streams.serde.codec import COMMAND, SCHEDULE
from streams.serde.ids import partition_for
from streams.serde.records import Command, Schedule, Wake
from streams.topology.load import load

TOPOLOGY = load(OVERLAY)
TENANTS = 200
STEADY_RATE = 200
AHEAD_MS = 3_000


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--timers", type=int, default=60_000)
    parser.add_argument("--seconds", type=float, default=10)
    chosen = parser.parse_args()
    topics = ("schedule", "jobs.commands", "scheduler.timers.changelog", "dlq", "clock")
    with broker_and_folder() as (bootstrap, folder):
        create_topics(bootstrap, TOPOLOGY, topics)
        due = {f"b{n}": now_ms() - 1_000 for n in range(chosen.timers)}
        set_timers(bootstrap, due)
        with stage("scheduler", bootstrap, folder) as process:
            results, wrong = backlog(bootstrap, process, due)
            steady_results, steady_wrong = steady(bootstrap, process, chosen.seconds)
    faults = Result("both", "lost, repeated or early", wrong + steady_wrong, "timers")
    report("scheduler", [*results, *steady_results, faults], as_json=chosen.json)
    sys.exit(1 if faults.value else 0)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def set_timers(bootstrap: str, due: dict[str, int]) -> None:
    """Write the schedules, by job id; each wakes its job."""
    sender = producer(bootstrap, linger_ms=20)
    for number, (job_id, at) in enumerate(due.items()):
        tenant = f"tnt_{number % TENANTS:06d}"
        wake = COMMAND.encode(Command(f"cmd_{number:036d}", tenant, job_id, 0, at, Wake(1, 1, at)))
        schedule = Schedule(f"{job_id}.1.1", tenant, at, "jobs.commands", tenant.encode(), wake)
        sender.produce(
            "schedule",
            SCHEDULE.encode(schedule),
            tenant.encode(),
            partition_for(tenant, TOPOLOGY.partitions),
        )
    flush(sender)


def backlog(
    bootstrap: str, process: subprocess.Popen[bytes], due: dict[str, int]
) -> tuple[list[Result], int]:
    """Everything is due: from the first that is fired to the last."""
    reader = Reader(bootstrap, TOPOLOGY, "jobs.commands")
    values: list[bytes] = []
    marks: list[tuple[float, int]] = []

    def complete() -> bool:
        batch = reader.read(20_000)
        values.extend(m.value() or b"" for m in batch)
        if batch:
            marks.append((time.perf_counter(), len(values)))
        return len(values) >= len(due)

    until(complete, process, "all timers fired")
    reader.close()
    (first, before), (last, fired) = marks[0], marks[-1]
    rate = (fired - before) / (last - first)
    result = Result("overdue backlog", "taken in and fired", round(rate, 1), "timers/s")
    return [result], misfired(values, due)


def steady(
    bootstrap: str, process: subprocess.Popen[bytes], seconds: float
) -> tuple[list[Result], int]:
    """Timers that come due one by one."""
    reader = Reader(bootstrap, TOPOLOGY, "jobs.commands", from_now=True)
    reader.read(wait=1)
    count, start = int(seconds * STEADY_RATE), now_ms() + AHEAD_MS
    due = {f"s{n}": start + n * 1_000 // STEADY_RATE for n in range(count)}
    set_timers(bootstrap, due)
    arrivals: list[tuple[bytes, float]] = []

    def complete() -> bool:
        batch = reader.read()
        at = time.time()
        arrivals.extend((m.value() or b"", at) for m in batch)
        return len(arrivals) >= count

    until(complete, process, "all timers fired")
    reader.close()
    late = [at - due[COMMAND.decode(value).job_id] / 1000 for value, at in arrivals]
    results = percentiles(f"{STEADY_RATE} timers/s", "late by", late)
    return results, misfired((value for value, _ in arrivals), due) + sum(one < 0 for one in late)


def misfired(values: Iterable[bytes], due: dict[str, int]) -> int:
    """Timers that did not fire, or more than once, or that nobody set."""
    fired = Counter(COMMAND.decode(value).job_id for value in values)
    return len(due.keys() - fired.keys()) + sum(n - (id_ in due) for id_, n in fired.items())


if __name__ == "__main__":
    main()

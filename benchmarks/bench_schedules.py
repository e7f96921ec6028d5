"""What schedules cost one dispatcher process, and how late their jobs are made.

    python benchmarks/bench_schedules.py [--schedules 10000] [--rate 200] [--seconds 20] [--json]

`idle`: processor time of a dispatcher that has nothing to do, before there are schedules and with
so many of them whose times are far ahead, and the memory that they take. `spread`: as many
one-shots as `rate` a second over `seconds`; lateness is from the time of a schedule to the moment
at which a reader of `jobs` has its job. `herd`: one-shots that all fire at the same second, as many
in each partition as a step takes, and ten times as many. Each time must make one job, else the exit
code is 1. No worker is there, so that the stage's own work is measured.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter

from bench_dispatcher import TENANTS, TOPOLOGY
from harness import Result, arguments, broker_and_folder, create_topics, report
from jobs_run import process_seconds
from outside import Reader, flush, percentiles, producer, resident, stage, until

from streams.schedules.definition import definition
from streams.serde.codec import COMMAND, JOB
from streams.serde.ids import new_id, partition_for
from streams.serde.records import Command, ScheduleSpec, SetSchedule

IDLE_SECONDS = 10.0
AHEAD_SECONDS = 6.0
"""The first time of a batch is so far ahead that all of it is set before."""
A_STEP = 200


class Schedules:
    """Sets schedules, and reads the jobs that they make; `taken_at` has the moment of each."""

    def __init__(self, bootstrap: str) -> None:
        self._sender = producer(bootstrap, linger_ms=5)
        self._jobs = Reader(bootstrap, TOPOLOGY, "jobs", from_now=True)
        self._rows = Reader(bootstrap, TOPOLOGY, "schedules", from_now=True)
        self._jobs.read(wait=1)
        self._rows.read(wait=1)
        self.due: dict[str, int] = {}
        self.late: dict[str, float] = {}
        self.made: Counter[str] = Counter()
        self.known: set[bytes] = set()

    def set(self, name: str, number: int, spec: ScheduleSpec) -> None:
        tenant = f"tnt_{number % TENANTS:06d}"
        body = SetSchedule(name, spec, None, "", "bench")
        command = Command(new_id("cmd"), tenant, "", 0, 0, body)
        partition = partition_for(tenant, TOPOLOGY.partitions)
        self._sender.produce("jobs.commands", COMMAND.encode(command), tenant.encode(), partition)
        self._sender.poll(0)
        if spec.at is not None:
            self.due[name] = spec.at

    def shown(self, count: int, process: subprocess.Popen[bytes]) -> None:
        """So many schedules are on their topic."""
        flush(self._sender)

        def reached() -> bool:
            self.known.update(m.key() or b"" for m in self._rows.read())
            return len(self.known) >= count

        until(reached, process, f"{count:,} schedules", 200)

    def all_made(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        """Each one-shot that was set has its job."""

        def reached() -> bool:
            for message in self._jobs.read():
                job = JOB.decode(message.value())
                if job.schedule_id is not None and job.schedule_id not in self.late:
                    late = time.time() - self.due[job.schedule_id] / 1000
                    self.late[job.schedule_id] = late
                self.made[job.schedule_id or ""] += 1
            return len(self.late) >= len(self.due)

        until(reached, process, "all jobs are made", seconds)

    def close(self) -> None:
        self._jobs.close()
        self._rows.close()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    chosen = parser.parse_args()
    with broker_and_folder() as (bootstrap, folder):
        create_topics(bootstrap, TOPOLOGY, tuple(TOPOLOGY.topics))
        with stage("dispatcher", bootstrap, folder) as process:
            schedules = Schedules(bootstrap)
            results = idle(schedules, process, chosen.schedules)
            results += spread(schedules, process, chosen.rate, chosen.seconds)
            results += herd(schedules, process, A_STEP * TOPOLOGY.partitions)
            results += herd(schedules, process, 10 * A_STEP * TOPOLOGY.partitions)
            wrong = sum(1 for count in schedules.made.values() if count != 1)
            early = sum(1 for late in schedules.late.values() if late < 0)
            schedules.close()
    results.append(Result("all", "not one job", wrong, "times"))
    results.append(Result("all", "early", early, "times"))
    report("schedules", results, as_json=chosen.json)
    sys.exit(1 if wrong or early else 0)


def idle(schedules: Schedules, process: subprocess.Popen[bytes], count: int) -> list[Result]:
    """The same dispatcher without schedules, and with so many that fire tomorrow."""
    time.sleep(2)
    results = [_cost(process, "idle without schedules"), resident(process, "before")]
    tomorrow = definition("plain", "{}", cron="0 9 * * *", tz="Europe/Berlin")
    for number in range(count):
        schedules.set(f"far{number}", number, tomorrow)
    schedules.shown(count, process)
    time.sleep(2)
    name = f"idle with {count:,}"
    return [*results, _cost(process, name), resident(process, f"with {count:,}")]


def spread(
    schedules: Schedules, process: subprocess.Popen[bytes], rate: int, seconds: float
) -> list[Result]:
    """One after the other, among those that are idle."""
    first, count = time.time() + AHEAD_SECONDS, round(rate * seconds)
    for number in range(count):
        at = round((first + number / rate) * 1000)
        schedules.set(f"one{number}", number, definition("plain", "{}", at=at))
    schedules.all_made(process, seconds + 60)
    late = [late for name, late in schedules.late.items() if name.startswith("one")]
    return percentiles(f"spread, {rate}/s", "lateness", late)


def herd(schedules: Schedules, process: subprocess.Popen[bytes], count: int) -> list[Result]:
    """All at the same moment."""
    at, name = round((time.time() + AHEAD_SECONDS + count / 1_000) * 1000), f"herd{count}-"
    for number in range(count):
        schedules.set(f"{name}{number}", number, definition("plain", "{}", at=at))
    schedules.all_made(process, 120)
    late = [late for each, late in schedules.late.items() if each.startswith(name)]
    return percentiles(f"herd of {count:,}", "lateness", late)


def _cost(process: subprocess.Popen[bytes], contender: str) -> Result:
    """Processor time in a second of rest."""
    before = process_seconds(process.pid)
    time.sleep(IDLE_SECONDS)
    spent = (process_seconds(process.pid) - before) / IDLE_SECONDS
    return Result(contender, "processor time", round(spent * 1000, 1), "ms/s")


if __name__ == "__main__":
    main()

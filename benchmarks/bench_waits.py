"""What waits cost one dispatcher process, with a scripted worker and a scheduler process beside it.

    python benchmarks/bench_waits.py [--jobs 3000] [--waiting 20000] [--seconds 8] [--json]

The worker here answers each lease at once: it ends a `plain` job, and parks a `patient` one on its
first lease for an event of the job's subject. `park and resume`: such jobs a second, each answered
as soon as it is parked, beside the rate of plain ones. `500 wakes/s`: from the sending of an
answer to the lease of its job, beside the same of a plain event. `beside`: processor time of an
event that no job waits for, before and after so many jobs wait, with the memory that they take and
how long a restart takes until it leases again. Every job must end once and get its own answer, else
the exit code is 1.
"""

from __future__ import annotations

import subprocess
import sys
import time
from argparse import Namespace
from collections import deque
from pathlib import Path

import orjson
from bench_dispatcher import TOPOLOGY, Events, ScriptedWorker, backlog, link
from harness import Result, arguments, broker_and_folder, create_topics, report
from jobs_run import process_seconds
from outside import flush, percentiles, resident, stage, until

from streams.event_match import match_of
from streams.serde.records import Lease, Wait

RATE = 500
OTHERS = 20_000
"""How many events that no job waits for are timed."""


class Waiter(ScriptedWorker):
    """Parks patient jobs; `parked` are jobs and subjects in the order of their parks."""

    types = ("plain", "one_effect", "patient")

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.parked: deque[tuple[str, str]] = deque()
        self.woken_at: dict[str, float] = {}
        self.wrong = 0

    def _lease(self, lease: Lease) -> None:
        if lease.type != "patient":
            super()._lease(lease)
            return
        self.leased[lease.job_id] += 1
        if not lease.steps:
            self._end(lease, "parked", _wait(lease))
            self.ended -= 1
            self.parked.append((lease.job_id, _subject(lease)))
        else:
            self.woken_at[lease.job_id] = time.perf_counter()
            got = orjson.loads(lease.steps[0].value or "{}").get("event", {}).get("subject")
            self.wrong += got != _subject(lease)
            self._end(lease)


def _subject(lease: Lease) -> str:
    return (lease.event.subject if lease.event else None) or ""


def _wait(lease: Lease) -> Wait:
    match = match_of({"source": "bench", "event_type": "answer", "subject": _subject(lease)})
    return Wait("event", "event", 0, b"d", group=0, match=match.text(), since="job")


class Asked(Events):
    """`tenants` has the tenant of each job's subject."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.tenants: dict[str, str] = {}
        self._answers = 0

    def send(self, event_type: str, key: str) -> None:
        self.tenants[key] = f"tnt_{len(self.sent) % 40:06d}"
        super().send(event_type, key)

    def answer(self, subject: str, tenant: str = "") -> None:
        """An event that makes no job."""
        self._answers += 1
        self.write(tenant or self.tenants[subject], "answer", f"answer-{self._answers}", subject)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--jobs", type=int, default=3_000)
    parser.add_argument("--waiting", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=8)
    chosen = parser.parse_args()
    with broker_and_folder() as (bootstrap, folder):
        create_topics(bootstrap, TOPOLOGY, tuple(TOPOLOGY.topics))
        with stage("scheduler", bootstrap, folder):
            results, wrong = measured(bootstrap, folder, chosen)
    results.append(Result("all", "without the own answer", wrong, "jobs"))
    report("waits", results, as_json=chosen.json)
    sys.exit(1 if wrong else 0)


def measured(bootstrap: str, folder: Path, chosen: Namespace) -> tuple[list[Result], int]:
    events, jobs, waiting = Asked(bootstrap), chosen.jobs, chosen.waiting
    for number in range(jobs):
        events.send("plain.made", f"p{number}")
    flush(events.sender)
    address, env = link()
    with stage("dispatcher", bootstrap, folder, env=env) as process:
        worker = Waiter(address)
        results = [backlog("plain", worker, process, jobs)]
        results.append(park_and_resume(events, worker, process, jobs))
        results += wakes(events, worker, process, int(chosen.seconds * RATE))
        results.append(others(events, worker, process, "beside no waits"))
        results.append(resident(process, "before"))
        fill(events, worker, process, waiting)
        results.append(resident(process, f"{waiting:,} waiting"))
        results.append(others(events, worker, process, f"beside {waiting:,} waits"))
    with stage("dispatcher", bootstrap, folder, env=env) as process:
        results.append(restored(events, worker, process))
    worker.close()
    return results, worker.wrong


def park_and_resume(
    events: Asked, worker: Waiter, process: subprocess.Popen[bytes], jobs: int
) -> Result:
    """Each job is answered as soon as its worker has parked it."""
    goal, start = worker.ended + jobs, time.perf_counter()
    for number in range(jobs):
        events.send("patient.made", f"w{number}")

    def reached() -> bool:
        worker.work()
        while worker.parked:
            events.answer(worker.parked.popleft()[1])
        return worker.ended >= goal

    until(reached, process, "all resumed", 200)
    rate = jobs / (time.perf_counter() - start)
    return Result("park and resume", "event to end", round(rate, 1), "jobs/s")


def wakes(
    events: Asked, worker: Waiter, process: subprocess.Popen[bytes], count: int
) -> list[Result]:
    """Answers and plain events in turns, each at half of the rate."""
    for number in range(count // 2):
        events.send("patient.made", f"k{number}")
    flush(events.sender)
    _parked(worker, process, count // 2)
    goal, start, sent, first = worker.ended + count, time.perf_counter(), 0, len(events.sent)
    answered: dict[str, float] = {}

    def reached() -> bool:
        nonlocal sent
        while sent < count and time.perf_counter() >= start + sent / RATE:
            if sent % 2:
                events.send("plain.made", f"h{sent}")
            else:
                job_id, subject = worker.parked.popleft()
                answered[job_id] = time.perf_counter()
                events.answer(subject)
            sent += 1
        worker.work()
        return worker.ended >= goal

    until(reached, process, "all woken", 200)
    plain = [worker.taken_at[job] - events.sent[job][1] for job in list(events.sent)[first:]]
    woken = [worker.woken_at[job] - at for job, at in answered.items()]
    name = f"{RATE} events/s"
    return [
        *percentiles(name, "plain event to lease", plain),
        *percentiles(name, "answer to lease", woken),
    ]


def fill(events: Asked, worker: Waiter, process: subprocess.Popen[bytes], count: int) -> None:
    """So many jobs wait."""
    for number in range(count):
        events.send("patient.made", f"f{number}")
        if number % 500 == 0:
            worker.work()
    flush(events.sender)
    _parked(worker, process, count)


def others(
    events: Asked, worker: Waiter, process: subprocess.Popen[bytes], contender: str
) -> Result:
    """Processor time of an event of a type that jobs wait for, with a subject of nobody's."""
    before = process_seconds(process.pid)
    for number in range(OTHERS):
        events.answer(f"nobody-{number}", f"tnt_{number % 40:06d}")
    flush(events.sender)
    for partition in range(TOPOLOGY.partitions):  # the last to be read of each partition
        events.send("plain.made", f"last-{contender}-{partition}-{time.perf_counter()}")
    goal = worker.ended + TOPOLOGY.partitions

    def reached() -> bool:
        worker.work()
        return worker.ended >= goal

    until(reached, process, "all others read", 100)
    cost = (process_seconds(process.pid) - before) / OTHERS * 1e6
    return Result(contender, "an event without a job", round(cost, 1), "us")


def restored(events: Asked, worker: Waiter, process: subprocess.Popen[bytes]) -> Result:
    """From the start of the process to its first lease."""
    start, goal = time.perf_counter(), worker.ended + 1
    events.send("plain.made", f"again-{start}")

    def reached() -> bool:
        worker.work()
        return worker.ended >= goal

    until(reached, process, "it leases again", 200)
    return Result("restart", "start to lease", round(time.perf_counter() - start, 2), "s")


def _parked(worker: Waiter, process: subprocess.Popen[bytes], count: int) -> None:
    def reached() -> bool:
        worker.work()
        return len(worker.parked) >= count

    until(reached, process, "all parked", 400)


if __name__ == "__main__":
    main()
